"""What a program's conditions read in a run of it."""

from dataclasses import dataclass

OptionValue = bool | int | float | str | None
PLAIN = (bool, int, float, type(None))  # those that are no texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What conditions read in a function that a step is made in, and that nothing sets any more.

    Attributes:
        path: the file.
        line: the function's; 0 for what stands in no function.
        values: what was read, as the source has it, and what it was.
        there: what was read, and was an object of another kind, not None.
    """

    path: str
    line: int
    values: tuple[tuple[str, OptionValue], ...] = ()
    there: tuple[str, ...] = ()
