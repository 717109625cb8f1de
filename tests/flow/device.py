"""A device that is lent to one at a time."""

from collections.abc import Iterator
from contextlib import contextmanager


class Device:
    """Knows whether somebody has it; who asked for it twice would wait for ever."""

    def __init__(self) -> None:
        self.is_held = False

    @contextmanager
    def held(self) -> Iterator[None]:
        assert not self.is_held
        self.is_held = True
        try:
            yield
        finally:
            self.is_held = False
