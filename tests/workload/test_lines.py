"""A line that holds Python's lock all along counts for as long as it does so."""

import gc
import logging
from pathlib import Path

from autotune.workload.conversation import RunWindow, Watched
from autotune.workload.window import LINES
from tests.workload.programs import PLAIN, run

COLLECTING = PLAIN.replace("        optimizer.step()", "        optimizer.step()\n        tidy()")
TIDY = """
import gc

def tidy():
    gc.collect()
    sum(range(100_000))

"""


def test_what_a_library_does_at_each_collection_hides_no_line(tmp_path: Path) -> None:
    gc.callbacks.append(logging.debug)  # Python's lock is let go as it is called
    try:
        test_collecting_garbage_in_each_step_is_named(tmp_path)
    finally:
        gc.callbacks.remove(logging.debug)


def test_collecting_garbage_in_each_step_is_named(tmp_path: Path) -> None:
    text = TIDY + COLLECTING
    command = RunWindow(seconds=1.0, steps=20, mode=LINES)
    watched = run(text, RunWindow(seconds=0.0), command, RunWindow(seconds=0.0), folder=tmp_path)[2]
    assert isinstance(watched, Watched) and isinstance(watched.found, tuple)
    (line,) = (each for each in watched.found if each.function == "tidy")
    assert text.splitlines()[line.line - 1].strip() == "gc.collect()"
    assert (line.phase, line.share > 0.7) == ("other", True)  # 0.1 s of it, and 2 ms of the sum
