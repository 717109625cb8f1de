"""The two best are measured once more, where they are close and there is time for it."""

import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import Options, rematch
from autotune.flow.context import VERDICT_SHARE
from autotune.flow.rematch import settle
from autotune.listener import Listener
from autotune.measurement.interleaved.turns import Turns
from autotune.measurement.measurement import Failure
from autotune.result import Rematch
from autotune.trials.planner import Ranked
from autotune.trials.trial import Trial
from tests import builders
from tests.flow.device import Device


def ranked(*means: float) -> list[Ranked]:
    return [
        Ranked(trial=builders.trial(number, {"num_workers": number}, 100.0), mean=mean, sd=0.05)
        for number, mean in enumerate(means, start=1)
    ]


def settled(
    monkeypatch: pytest.MonkeyPatch,
    candidates: Sequence[Ranked],
    *,
    speeds: tuple[float, float] = (100.0, 120.0),
    seconds_left: float = 300.0,
    failures: dict[str, Failure] | None = None,
) -> tuple[Trial | None, Any]:
    def take_turns(contestants: Any, **_: Any) -> Turns:
        windows = {
            name: [[builders.window(seconds=12 * builders.BATCH / speed) for _ in range(5)]]
            for name, speed in zip(contestants, speeds, strict=True)
        }
        return Turns(windows=windows, failures=failures or {})

    monkeypatch.setattr(rematch, "take_turns", take_turns)
    context: Any = SimpleNamespace(
        options=Options(),
        deadline=time.monotonic() + seconds_left,
        listener=Listener(),
        machine=builders.machine(),
        device=Device(),
        bench=None,
        warm_seconds=1.0,
        verdict_share=VERDICT_SHARE,
    )
    return settle(context, builders.profile(), candidates)


def test_of_two_that_are_close_the_one_that_is_faster_in_turns_is_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best, result = settled(monkeypatch, ranked(5.0, 4.98))
    assert best is not None and best.number == 2
    assert result.trials == (1, 2) and result.taken == 2
    assert result.ratio.estimate == pytest.approx(1.2, rel=0.01)


def test_the_first_stays_the_best_where_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    best, result = settled(monkeypatch, ranked(5.0, 4.98), speeds=(120.0, 100.0))
    assert best is not None and best.number == 1 and result is not None


@pytest.mark.parametrize(
    ("lead", "fewer", "wins"),
    [
        (1.01, 1, 1),  # settings that gain next to nothing are left out
        (1.03, 1, 2),
        (0.99, 2, 2),
        (0.97, 2, 1),
    ],
)
def test_of_two_that_are_as_fast_the_one_with_fewer_settings_is_best(
    monkeypatch: pytest.MonkeyPatch, lead: float, fewer: int, wins: int
) -> None:
    """`lead` of the second, where the `fewer`th of the two has a setting less."""
    configs = [{"optimizer": "fused"}, {"optimizer": "fused"}]
    configs[2 - fewer] = {**configs[0], "precision": "bf16"}
    candidates = [
        Ranked(trial=builders.trial(number, config, 100.0), mean=5.0, sd=0.05)
        for number, config in enumerate(configs, start=1)
    ]
    best, _ = settled(monkeypatch, candidates, speeds=(100.0, 100.0 * lead))
    assert best is not None and best.number == wins


def test_two_that_are_far_apart_need_no_rematch(monkeypatch: pytest.MonkeyPatch) -> None:
    best, result = settled(monkeypatch, ranked(5.0, 4.0))
    assert best is not None and best.number == 1 and result is None


def test_the_verdict_keeps_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    best, result = settled(monkeypatch, ranked(5.0, 4.98), seconds_left=60.0)
    assert best is not None and best.number == 1 and result is None


@pytest.mark.parametrize(("lead", "wins"), [(0.01, 2), (0.03, 1)])
def test_where_there_is_no_time_fewer_settings_that_were_as_fast_are_best(
    monkeypatch: pytest.MonkeyPatch, lead: float, wins: int
) -> None:
    first, second = ranked(5.0, 5.0 - lead)
    more = replace(first.trial, config={**second.trial.config, "precision": "bf16"})
    best, result = settled(monkeypatch, [replace(first, trial=more), second], seconds_left=1.0)
    assert best is not None and best.number == wins and result is None


def test_the_program_as_it_is_is_left_to_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = ranked(5.0, 4.98)
    own = Ranked(trial=builders.trial(0, {}, 100.0), mean=4.99, sd=0.05)
    assert settled(monkeypatch, [candidates[0], own])[1] is None
    assert settled(monkeypatch, [own, candidates[1]])[0] == own.trial


def test_settings_that_fail_in_the_rematch_have_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = {rematch.FIRST: Failure(kind="crashed", reason="no")}
    best, result = settled(monkeypatch, ranked(5.0, 4.98), failures=failures)
    assert best is not None and best.number == 2
    told = Rematch(trials=(1, 2), taken=2, failed=(1,), reason="no")
    assert result == told
    failures[rematch.SECOND] = failures[rematch.FIRST]
    best, result = settled(monkeypatch, ranked(5.0, 4.98), failures=failures)
    assert best is not None and best.number == 1
    assert result == replace(told, taken=1, failed=(1, 2))
    failures = {
        rematch.FIRST: Failure(kind="crashed", reason="It ended."),
        rematch.SECOND: Failure(kind="crashed", reason="It hung."),
    }
    _, result = settled(monkeypatch, ranked(5.0, 4.98), failures=failures)
    assert result is not None and result.reason == "It ended; It hung"


def test_without_a_measured_trial_there_is_no_best(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settled(monkeypatch, []) == (None, None)


@pytest.mark.parametrize(("lead", "wins"), [(1.01, 1), (1.03, 2)])
def test_of_as_many_settings_those_of_the_same_numbers_are_better(
    monkeypatch: pytest.MonkeyPatch, lead: float, wins: int
) -> None:
    configs = [{"optimizer": "fused", "keep_freed_memory": True}]
    configs.append({"optimizer": "fused", "precision": "bf16"})
    candidates = [
        Ranked(trial=builders.trial(number, config, 100.0), mean=5.0, sd=0.05)
        for number, config in enumerate(configs, start=1)
    ]
    best, _ = settled(monkeypatch, candidates, speeds=(100.0, 100.0 * lead))
    assert best is not None and best.number == wins


def test_one_that_ended_before_its_turns_leaves_the_first_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Turns(windows={"first": [[builders.window(100.0)]], "second": [[]]})
    candidates = ranked(5.0, 4.98)
    found = rematch._winner(one, candidates[0].trial, candidates[1].trial, cores=2)
    assert found == (candidates[0].trial, None)
