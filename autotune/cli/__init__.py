"""The command line: words on the terminal, and no decisions."""

import signal
import sys
from io import TextIOWrapper

__all__ = ["INTERRUPTED", "UNREAD", "exit_code_of", "main"]

INTERRUPTED = 130  # 128 + SIGINT, as shells count
UNREAD = 141  # 128 + SIGPIPE: nobody reads on (`autotune compare A B | head -1`)


def main() -> None:
    """The command `autotune`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a letter shows "?" for it
            stream.reconfigure(errors="replace")
    # Ending politely lets go of every process and scratch file; kill -9 is cleaned up after anyway.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is not signal.SIG_IGN:  # as under nohup
            signal.signal(ending, _interrupt)
    try:
        from autotune.cli.app import app  # takes a moment, in which one may change one's mind

        app(prog_name="autotune")
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code_of(interrupt))


def exit_code_of(interrupt: KeyboardInterrupt) -> int:
    """What to exit with: SIGTERM and SIGHUP have codes of their own."""
    return next(iter(interrupt.args), INTERRUPTED)


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(128 + number)
