"""A budget is kept as far as a program can be timed in it, and one that cannot do is said so."""

import re
from pathlib import Path

import pytest

from autotune import flow
from autotune.flow import Options
from autotune.flow.profiling import FIRST_SAID_SECONDS, Waiting
from autotune.listener import Listener
from tests.faults.test_interrupts import TRAIN


class Told(Listener):
    """Keeps the names of the stages."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, name: str) -> None:
        self.stages.append(name)


@pytest.mark.usefixtures("brief")
def test_a_budget_that_is_far_too_small_is_said_with_one_that_would_do(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    result = flow.search(tmp_path / "train.py", options=Options(budget_seconds=0.5))
    assert result.verdict is not None and result.verdict.outcome == "failed"
    assert result.verdict.reason.startswith("The budget of 0.5 s was used up before any setting")
    assert "profiling it and looking at what may be tried took" in result.verdict.reason
    assert re.search(r"A budget of \d+ s should do\.$", result.verdict.reason)
    assert not any(trial.config for trial in result.trials)


def test_a_long_wait_for_the_first_step_is_told_ever_more_seldom() -> None:
    told = Told()
    waiting = Waiting(told)
    for second in range(int(8 * FIRST_SAID_SECONDS) + 1):
        waiting.told(float(second))
    assert told.stages == [
        f"waiting for the program's first training step: {seconds} s"
        for seconds in (10, 20, 40, 80)
    ]
