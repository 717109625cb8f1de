"""The command line: words on the terminal, and no decisions."""

import sys
from io import TextIOWrapper

from autotune.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """The command `autotune`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a letter shows "?" for it
            stream.reconfigure(errors="replace")
    app(prog_name="autotune")
