"""The command line: words on the terminal, and no decisions."""

import signal
import sys
from io import TextIOWrapper

from autotune.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """The command `autotune`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a letter shows "?" for it
            stream.reconfigure(errors="replace")
    # Ending politely lets go of every process and scratch file; kill -9 is cleaned up after anyway.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    app(prog_name="autotune")
