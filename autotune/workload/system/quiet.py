"""What torch warns of where it is not the program that asks is none of the program's business."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quietly() -> Iterator[None]:
    """No warning is shown, nor raised by a program that takes warnings for errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
