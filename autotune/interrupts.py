"""Ctrl-C that waits for the end of what is done whole: a step, a checkpoint, an answer."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts:
    """While entered, an interrupt during `held()` is raised at its end, a second one at once.

    Only the main thread hears signals: elsewhere this does nothing.
    """

    def __init__(self) -> None:
        self._holding = False
        self._pending = False
        self._before: Any = None

    def __enter__(self) -> "Interrupts":
        handler = signal.getsignal(signal.SIGINT)
        main = threading.current_thread() is threading.main_thread()
        if main and handler is signal.default_int_handler:  # a program's own handler stays
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is done inside is done whole."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._holding and not self._pending:
            self._pending = True
        else:
            raise KeyboardInterrupt
