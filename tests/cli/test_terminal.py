"""A search in a real terminal, which a pseudo-terminal is."""

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len

PROGRAM = """
import signal, sys
from autotune import flow
from autotune.cli import main
from tests import builders

def search(path, arguments, *, listener, options):
    result = builders.search_result()
    listener.stage("profiling")
    listener.profiled(result.profile, result.diagnosis)
    listener.space(result.space)
    for trial in result.trials:
        listener.trial_begins(trial.number, trial.config, 30.0, None)
        listener.trial_ended(trial, trial)
    if "--for-ever" in arguments:
        signal.pause()
    return result

flow.search = search
main()
"""
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CURSOR_BACK = "\x1b[?25h"


class Session:
    """A running command, and all that it has shown."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self.terminal = terminal
        self.shown = ""
        self._decode = codecs.getincrementaldecoder("utf-8")().decode  # a read may split a letter

    def read_until(self, words: str) -> None:
        while words not in self.shown:
            self.shown += self._decode(os.read(self.terminal, 65536))

    def read_to_the_end(self) -> int:
        try:
            while more := os.read(self.terminal, 65536):
                self.shown += self._decode(more)
        except OSError:  # a terminal that nobody writes to any more
            pass
        return self.process.wait(timeout=60)

    def lines(self) -> list[str]:
        return CODES.sub("", self.shown).replace("\r\n", "\n").split("\n")


def _at_a_terminal() -> None:
    """As a shell starts it, whatever started these tests (`nohup`, a script's `&`)."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def searching(tmp_path: Path, columns: int, *words: str, **environment: str) -> Iterator[Session]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")
    }
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "search", "photos.py", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env=kept | {"TERM": "xterm-256color", "PYTHONPATH": root} | environment,
        start_new_session=True,
        preexec_fn=_at_a_terminal,  # noqa: PLW1509  # no threads here
    )
    os.close(theirs)
    try:
        yield Session(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize("columns", [40, 80])
def test_a_search_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    with searching(tmp_path, columns) as session:
        code = session.read_to_the_end()

    assert code == 0
    assert "\x1b[1;32m2.12× faster" in session.shown
    assert CURSOR_BACK in session.shown
    shown = [line.split("\r")[-1] for line in session.lines()]
    assert max(map(cell_len, shown)) <= columns


def test_without_colour_nothing_is_coloured(tmp_path: Path) -> None:
    with searching(tmp_path, 80, NO_COLOR="1") as session:
        session.read_to_the_end()

    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", session.shown)


def test_an_interrupt_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with searching(tmp_path, 80, "--", "--for-ever") as session:
        session.read_until("trial 10")
        os.write(session.terminal, b"\x03")
        code = session.read_to_the_end()

    assert code == 130
    assert session.lines()[-2].endswith("the same command has them.")
    assert CURSOR_BACK in session.shown
    assert "Traceback" not in session.shown


def test_a_search_whose_terminal_is_gone_lets_go_of_what_it_has(tmp_path: Path) -> None:
    with searching(tmp_path, 80, "--", "--for-ever") as session:
        session.read_until("trial 10")
        session.process.send_signal(signal.SIGHUP)
        code = session.read_to_the_end()

    assert code == 128 + signal.SIGHUP
    assert CURSOR_BACK in session.shown
