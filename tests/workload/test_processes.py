"""Processes that a program starts beside its training, and goes on."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.profiling.course import doubts_of_processes
from tests.workload.programs import PLAIN, observe

# A Popen that nobody waits for says so when it goes, which must be before the next test.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("gone"),
]

SLEEP = 'subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])'
FORK = "multiprocessing.get_context('fork').Process(target=time.sleep, args=(1,), daemon=True)"


@pytest.fixture
def gone() -> Iterator[None]:
    """What the program had, which cycles may keep."""
    yield
    gc.collect()


def started(code: str) -> str:
    """A program that does `code` in its third step."""
    head = "import multiprocessing, subprocess, sys, time\ncount = 0\n"
    step = f"optimizer.step()\n        count += 1\n        if count == 3: {code}"
    return head + PLAIN.replace("optimizer.step()", step)


@pytest.mark.parametrize("code", [SLEEP, f"{FORK}.start()"])
def test_one_that_goes_on_beside_the_training_is_told(tmp_path: Path, code: str) -> None:
    text = started(code)
    seen = observe(text, tmp_path)
    place = seen.process_beside
    assert place is not None and code in text.splitlines()[place.line - 1]
    (doubt,) = doubts_of_processes(seen)
    assert f"(train.py:{place.line})" in doubt.evidence


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run([sys.executable, '-c', ''])",
        f"process = {FORK.replace('1', '0')}; process.start(); process.join()",
        "None",
    ],
)
def test_one_that_is_waited_for_is_a_part_of_its_step(tmp_path: Path, code: str) -> None:
    seen = observe(started(code), tmp_path)
    assert seen.process_beside is None and not doubts_of_processes(seen)


def test_what_was_started_before_the_training_is_there_in_each_step(tmp_path: Path) -> None:
    head = f"import subprocess, sys\nprocess = {SLEEP}\n"
    assert observe(head + PLAIN, tmp_path).process_beside is None


def test_the_workers_of_a_loader_are_none(tmp_path: Path) -> None:
    text = PLAIN.replace("batch_size=32", "batch_size=32, num_workers=1")
    assert observe(text, tmp_path).process_beside is None
