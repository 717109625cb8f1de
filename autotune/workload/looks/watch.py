"""What looks on in a few steps that are not timed."""

from typing import Protocol


class Watch(Protocol):
    """Something that looks on from the end of one step to the end of a later one."""

    def begin(self) -> None:
        """Begin to look on.

        Raises:
            RuntimeError: this torch or this device does not offer it.
        """

    def step(self) -> None:
        """A step has ended that is not the last."""

    def end(self) -> object:
        """Stop, and give what was found."""
