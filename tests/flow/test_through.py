"""What fails when its epochs are over is not handed back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import judging, through
from autotune.flow.context import Options
from autotune.flow.through import seen_through
from autotune.knobs.knob import Config
from autotune.listener import Listener
from autotune.measurement.measurement import Failure
from autotune.measurement.ratios import Ratio
from autotune.measurement.untimed.through import Through
from autotune.outputs.patch import Emission
from autotune.source.edits import EditOutcome
from autotune.verdict import BASELINE, DELIVERED, TUNED, Verdict
from tests import builders
from tests.flow.test_next_best import AS_IT_IS, BEST, THREADS, context_with, found
from tests.trials.test_study import SPACE

CONFIG: Config = {"precision": "bf16", "channels_last": True, "optimizer": "fused"}
FAILURE = Failure(kind="crashed", reason="RuntimeError: not contiguous")
FASTER = builders.verdict(config=CONFIG, speedup=Ratio(estimate=1.5, low=1.2, high=1.9))
EMISSION = Emission(
    sources={"/train.py": "text"},
    patch="+text",
    edits=(EditOutcome(knob="channels_last", edit="", status="done"),),
)


def judged(
    monkeypatch: pytest.MonkeyPatch,
    fails: Callable[[str | Config], bool],
    *,
    names: Sequence[str] = (BASELINE, TUNED),
    verdict: Verdict = FASTER,
    seen: Any = None,
) -> tuple[Verdict, Emission, list[Any]]:
    """The verdict and the emission where a run of a contestant, or with part of the settings,
    `fails`; and of which there were runs, with how long each had.
    """
    runs: list[Any] = []

    def run_through(start: Any, *, batches: int, seconds: float) -> Through:
        which = start if isinstance(start, str) else start.args[0]
        runs.append((which, batches, seconds))
        return Through(seconds=4.0, failure=FAILURE if fails(which) else None)

    monkeypatch.setattr(through, "run_through", run_through)
    context: Any = SimpleNamespace(
        listener=Listener(),
        seconds=Options(budget_seconds=200.0).seconds,
        bench=SimpleNamespace(start=lambda config: None),
    )
    profiled = builders.profile(seen=seen or builders.seen())
    starts: Any = {name: name for name in names}
    return *seen_through(context, profiled, starts, CONFIG, verdict, EMISSION), runs


def test_what_does_not_fail_is_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, emission, runs = judged(monkeypatch, lambda which: False)
    assert verdict.outcome == "faster" and emission is EMISSION
    assert runs == [(TUNED, 2, 12.0)]
    assert "was run on for 4 s, and did not fail" in verdict.through


def test_what_fails_is_not_and_the_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(which: str | Config) -> bool:
        return which == TUNED or "channels_last" in which

    verdict, emission, runs = judged(monkeypatch, fails)
    assert verdict.outcome == "no_gain" and verdict.breaks and verdict.is_withheld
    assert not verdict.trains_otherwise and not verdict.config
    assert verdict.suspect == "channels_last" and emission == Emission()
    assert "1.50×, but with channels_last on the program fails later" in verdict.reason
    assert FAILURE.reason in verdict.reason
    own = next(seconds for which, _, seconds in runs if which == BASELINE)
    assert own == through.SLACK * 1.9 * 4.0 + through.SLACK_SECONDS


def test_where_no_one_setting_is_to_blame_all_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _, _ = judged(monkeypatch, lambda which: which != BASELINE)
    assert verdict.breaks and verdict.suspect == "precision"
    assert "with precision bf16, channels_last on, optimizer fused the program" in verdict.reason


def test_a_program_that_fails_by_itself_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, emission, runs = judged(monkeypatch, lambda which: True)
    assert verdict.outcome == "faster" and emission is EMISSION
    assert [which for which, _, _ in runs] == [TUNED, BASELINE]
    assert "the program fails as it is (RuntimeError: not contiguous)" in verdict.through


def test_a_patch_that_fails_where_its_settings_do_not_is_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdict, emission, _ = judged(
        monkeypatch, lambda which: which == DELIVERED, names=(BASELINE, TUNED, DELIVERED)
    )
    assert verdict.outcome == "faster" and not emission.sources
    assert "fails later on: RuntimeError: not contiguous" in emission.refused[0].reason


@pytest.mark.parametrize("why", ["no gain", "no loader"])
def test_what_is_not_handed_back_or_has_no_epochs_is_not_run(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    verdict = builders.verdict(outcome="no_gain") if why == "no gain" else FASTER
    seen = replace(builders.seen(), loader=None) if why == "no loader" else None
    found, _, runs = judged(monkeypatch, lambda which: True, verdict=verdict, seen=seen)
    assert found is verdict and not runs


def test_batches_that_are_added_up_to_a_step_are_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = replace(builders.seen(), backwards_per_step=3.9)
    _, _, runs = judged(monkeypatch, lambda which: False, seen=seen)
    assert runs == [(TUNED, 8, 12.0)]


def test_the_next_best_is_judged_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    breaks = replace(builders.verdict(outcome="no_gain", suspect="precision"), breaks=True)

    def judged(_context: Any, _profiled: Any, trial: Any) -> tuple[Verdict, Any]:
        if "precision" in trial.config:
            return breaks, "nothing"
        return builders.verdict(config=dict(trial.config)), "its source"

    monkeypatch.setattr(judging, "_judged", judged)
    monkeypatch.setattr(judging.time, "monotonic", lambda: 0.0)
    tried = found(AS_IT_IS, BEST, THREADS)
    verdict, source = judging.judge(context_with(100.0), builders.profile(), SPACE, tried)
    assert verdict.config == THREADS.config and source == "its source"
    assert verdict.suspect == "precision" and breaks.reason in verdict.passed_over
