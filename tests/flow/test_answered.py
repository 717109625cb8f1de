"""The same search again is answered from the result that is kept, and nothing else is."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import Options
from autotune.flow.sameness import kept_answer, search_key
from autotune.listener import Listener
from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import RunEnded
from autotune.outputs.document import write_document
from autotune.result import Result, SearchFacts
from autotune.trials.trial import BUDGET, PATIENCE, Ending
from autotune.verdict import Ratio
from autotune.workload.program.target import load_target
from tests import builders
from tests.flow.device import Device


class Kept:
    """A folder with a result, and a program that is the same or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "train.py").write_text("import torch\n")
        self.seen = builders.seen()
        self.starts = 0
        self.device = Device()
        self.write()

    def context(self, **options: Any) -> Any:
        return SimpleNamespace(
            target=load_target(self.folder / "train.py"),
            machine=builders.machine(),
            listener=Listener(),
            device=self.device,
            bench=SimpleNamespace(observe=self._observe, passed_loops=0),
            options=Options(**{"out": self.folder, "budget_seconds": 60.0, **options}),
        )

    def write(self, why: str = PATIENCE, **changes: Any) -> None:
        facts = SearchFacts(
            key=search_key(self.context(), self.seen),
            sampler="profile",
            patience_seconds=3.0,
            ending=Ending(why=why, reason="It does not pay."),
        )
        result = builders.search_result(**{"search": facts, **changes})
        write_document(result, self.folder / "result.json")
        for name in ("tuned.toml", "tuned.patch"):
            (self.folder / name).write_text("")

    def _observe(self) -> Any:
        self.starts += 1
        return SimpleNamespace(
            window=lambda *_, **__: self._trains(), seen=lambda: self.seen, kill=self._trains
        )

    def _trains(self) -> None:
        assert self.device.is_held


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def answer(kept: Kept, **options: Any) -> Result | None:
    return kept_answer(kept.context(**options))


def test_the_same_search_is_answered_at_once_and_says_so(kept: Kept) -> None:
    answered = answer(kept)
    assert answered is not None and answered.search is not None
    assert answered.search.answered_at
    assert answered.verdict == builders.verdict()
    assert kept.starts == 1


def test_a_smaller_budget_has_its_answer_too_and_a_larger_one_searches_on(kept: Kept) -> None:
    assert answer(kept, budget_seconds=30.0) is not None
    assert answer(kept, budget_seconds=300.0) is None


def test_a_fresh_search_is_not_answered(kept: Kept) -> None:
    assert answer(kept, fresh=True) is None


def test_where_a_gain_is_not_excluded_the_same_command_measures_again(kept: Kept) -> None:
    open_ended = Ratio(estimate=1.2, low=0.8, high=1.8)
    kept.write(verdict=builders.verdict(outcome="no_gain", config={}, speedup=open_ended))
    assert answer(kept) is None
    settled = Ratio(estimate=1.0, low=0.98, high=1.02)
    kept.write(verdict=builders.verdict(outcome="no_gain", config={}, speedup=settled))
    assert answer(kept) is not None


def test_other_data_is_searched_for(kept: Kept) -> None:
    kept.seen = replace(kept.seen, batch=("float32[64, 3, 224, 224]",))
    assert answer(kept) is None


def test_a_changed_program_is_not_even_started_for_it(kept: Kept) -> None:
    (kept.folder / "train.py").write_text("import torch, math\n")
    assert answer(kept) is None
    assert kept.starts == 0


def test_a_search_that_was_cut_off_goes_on(kept: Kept) -> None:
    kept.write(why=BUDGET)
    assert answer(kept) is None


def test_a_search_without_an_answer_is_done_again(kept: Kept) -> None:
    kept.write(verdict=builders.verdict(outcome="failed"))
    assert answer(kept) is None


@pytest.mark.parametrize("name", ["tuned.toml", "tuned.patch"])
def test_settings_that_were_thrown_away_are_searched_for_again(kept: Kept, name: str) -> None:
    (kept.folder / name).unlink()
    assert answer(kept) is None


def test_a_search_with_a_trial_that_met_a_busy_machine_goes_on(kept: Kept) -> None:
    busy = Failure(kind="busy", reason="other work")
    kept.write(trials=(*builders.trials(), builders.trial(9, {"threads": 1}, busy)))
    assert answer(kept) is None


def test_a_program_that_fails_now_is_left_to_its_profile(kept: Kept) -> None:
    def fails() -> None:
        raise RunEnded(Failure(kind="crashed", reason="no"))

    context = kept.context()
    context.bench.observe = fails
    assert kept_answer(context) is None
