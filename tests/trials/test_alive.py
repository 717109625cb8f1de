"""Whether the process that makes a trial is over."""

import os
import subprocess
import sys

import pytest

from autotune.trials.study.alive import is_over, this_process

SAYS = "from autotune.trials.study.alive import this_process; print(this_process(), flush=True)"


def test_a_process_that_runs_is_not_over() -> None:
    assert not is_over(this_process())


def test_one_that_has_ended_is() -> None:
    said = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True)
    assert is_over(said.stdout.strip())


def test_another_one_of_the_same_number_is_not_taken_for_it() -> None:
    place, number, started = this_process().split(" ")
    assert int(number) == os.getpid()
    assert is_over(f"{place} {number} {int(started) - 100}")


def test_one_that_proc_hides_is_not_over(monkeypatch: pytest.MonkeyPatch) -> None:
    place, _, started = this_process().split(" ")

    def belongs_to_another(number: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", belongs_to_another)
    assert not is_over(f"{place} 2000000000 {started}")


@pytest.mark.parametrize("said", ["", "another-machine 1 0.0", "nothing"])
def test_one_of_another_machine_cannot_be_seen_to_be_over(said: str) -> None:
    assert not is_over(said)
