"""Losses that part are held against how far chance alone takes the training."""

import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import judging
from autotune.flow.context import Options
from autotune.flow.trying import Found
from autotune.knobs.knob import Config
from autotune.listener import Listener
from autotune.measurement.measurement import Failure
from autotune.measurement.process import RunEnded
from autotune.measurement.ratios import Ratio
from autotune.outputs.patch import Emission
from autotune.profiling.profile import TOO_FEW_STEPS, Doubt
from autotune.source.edits import EditOutcome, ProcessStatement
from autotune.trials.trial import BUDGET, EXHAUSTED, PATIENCE, REPEATED, Ending, Trial
from autotune.verdict import Delivered
from autotune.verdict.parity import NUDGE
from autotune.workload.window import AS_IS, Window
from tests import builders
from tests.trials.test_study import SPACE


def window(*losses: float) -> Window:
    return Window(mode=AS_IS, steps=len(losses), samples=1, seconds=0.1, losses=losses)


def controls(
    *windows: Window,
    end: Window | None = None,
    config: Config | None = None,
    own: Sequence[float] = (3.0, 2.0, 1.0),
) -> list[list[float]]:
    """Losses of controls that each run for these windows and then end, held against the `own` of
    the program; the streams that they read from are appended.
    """
    streams: list[float] = []

    def start(*, nudge: float, stream: int) -> Any:
        assert nudge == NUDGE
        streams.append(stream)
        return SimpleNamespace(window=_runs_on(windows, end), kill=lambda: None)

    context: Any = SimpleNamespace(
        listener=Listener(), bench=SimpleNamespace(start=start), seconds=Options().seconds
    )
    found = judging._controls(context, config or {"threads": 1}, own, nudge=NUDGE)
    return [*found, streams]


def _runs_on(windows: tuple[Window, ...], end: Window | None) -> Any:
    given = iter(windows)

    def run_on(_seconds: float) -> Window:
        if (found := next(given, None)) is None:
            raise RunEnded(Failure(kind="ended", reason="It ended."), end)
        return found

    return run_on


def test_a_control_is_run_for_as_many_losses() -> None:
    found = controls(window(3.0), window(2.0), window(1.0), window(0.5))
    assert found == [[3.0, 2.0, 1.0], [0]]


def test_a_control_that_ends_has_those_that_there_are() -> None:
    assert controls(window(3.0), end=window(2.0)) == [[3.0, 2.0], [0]]


@pytest.mark.parametrize("config", [{"num_workers": 2}, {"persistent_workers": True}])
def test_where_other_workers_read_several_controls_read_with_other_random_numbers(
    config: Config,
) -> None:
    found = controls(window(3.0), window(2.0), window(1.0), config=config)
    assert found == [[3.0, 2.0, 1.0]] * 3 + [[1, 2, 3]]


def test_a_program_that_has_other_losses_in_each_run_has_several_controls() -> None:
    found = controls(window(3.0), window(2.0), window(1.0), own=(1.0, 0.2, 0.1))
    assert found == [[3.0, 2.0, 1.0]] * 3 + [[0, 0, 0]]


def test_the_controls_of_a_slow_program_have_their_share_of_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]

    def slow(_seconds: float) -> Window:
        now[0] += 40.0
        return window(1.0)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    run = SimpleNamespace(window=slow, kill=lambda: None)
    context: Any = SimpleNamespace(
        listener=Listener(),
        bench=SimpleNamespace(start=lambda **_: run),
        seconds=Options(budget_seconds=300.0).seconds,
    )
    assert judging._controls(context, {"threads": 1}, [1.0] * 3, nudge=NUDGE) == [[1.0, 1.0, 1.0]]


def test_only_a_gain_that_falls_with_it_is_worth_the_run() -> None:
    reason = "The losses part by 28.0 %, where noise explains 24.5 %."
    parted = builders.parity(same_training=False, steps=90, reason=reason)
    exact = builders.parity(same_training=False, steps=90, reason="Step 2 has another loss.")
    scattered = builders.parity(same_training=False, steps=90, reason="The loss scatters 2 times.")
    gain = Ratio(estimate=1.5, low=1.2, high=1.9)
    loss = Ratio(estimate=0.8, low=0.7, high=0.9)
    assert judging._steps_that_part(builders.verdict(parity=parted, speedup=gain)) == 90
    assert judging._steps_that_part(builders.verdict(parity=parted, speedup=loss)) == 0
    assert judging._steps_that_part(builders.verdict(parity=exact, speedup=gain)) == 90
    assert judging._steps_that_part(builders.verdict(parity=scattered, speedup=gain)) == 0
    assert judging._steps_that_part(builders.verdict(parity=None, speedup=gain)) == 0
    assert judging._steps_that_part(builders.verdict(speedup=gain)) == 0
    partly = Delivered(samples_per_second=1.0, speedup=gain, settings_observed=False, parity=parted)
    assert judging._steps_that_part(builders.verdict(speedup=gain, delivered=partly)) == 90


def test_workers_that_no_second_epoch_has_shown_to_live_on_are_not_judged() -> None:
    own = builders.seen().loader
    assert own is not None
    config: Config = {"num_workers": 2, "persistent_workers": True}
    for epochs, kept in ((1, {"num_workers": 2}), (2, config)):
        loader = replace(own, num_workers=2, persistent_workers=True, epochs=epochs)
        outcome = builders.measurement(9.0, seen=builders.seen(loader=loader))
        assert judging._shown(builders.trial(1, config, outcome)).config == kept


def test_a_patch_that_trains_otherwise_is_not_handed_back() -> None:
    edit = EditOutcome(knob="threads", edit=ProcessStatement(code="pass"), status="done")
    emission = Emission(sources={"/train.py": "pass"}, patch="+pass", edits=(edit,))
    for same in (True, None, False):
        delivered = Delivered(
            samples_per_second=1.0,
            speedup=None,
            settings_observed=False,
            reason="It did not train the same.",
            parity=builders.parity(same_training=same),
        )
        left = judging._handed_back(
            builders.verdict(outcome="faster", delivered=delivered), emission, failed=False
        )
        assert bool(left.patch) == (same is not False)
    assert left.edits[0].reason == "It did not train the same."


@pytest.mark.parametrize(
    ("failed", "speedup", "kept"),
    [(False, 1.3, True), (False, 1.05, False), (False, 0.6, False), (True, None, False)],
    ids=["faster", "perhaps", "slower", "failed"],
)
def test_a_part_of_the_settings_that_is_slower_or_fails_is_not_handed_back(
    failed: bool, speedup: float | None, kept: bool
) -> None:
    edit = EditOutcome(knob="threads", edit=ProcessStatement(code="pass"), status="done")
    emission = Emission(sources={"/train.py": "pass"}, patch="+pass", edits=(edit,))
    delivered = Delivered(
        samples_per_second=None,
        speedup=speedup and Ratio(estimate=speedup, low=0.9 * speedup, high=speedup),
        settings_observed=False,
        reason="num_workers was asked for",
    )
    verdict = builders.verdict(outcome="faster", delivered=delivered)
    left = judging._handed_back(verdict, emission, failed=failed)
    assert bool(left.patch) == kept
    if speedup == 0.6:
        assert "0.60×" in left.edits[0].reason


@pytest.mark.parametrize("ended_early", [True, False])
def test_a_program_that_ends_before_its_speed_is_known_has_no_answer(ended_early: bool) -> None:
    doubt = Doubt(name=TOO_FEW_STEPS, evidence="Only 2 steps were timed.", advice="")
    profiled = builders.profile(ended_early=ended_early, doubts=(doubt,))
    measured = Trial(
        number=1, config={"threads": 1}, outcome=builders.measurement(100.0), seconds=1.0
    )
    reason = judging._why_unknown(profiled, [measured])
    assert reason.startswith("The program ends before its speed can be told") is ended_early


@pytest.mark.parametrize(
    ("why", "tried", "outcome", "words"),
    [
        (PATIENCE, False, "no_gain", "No setting promises enough for a trial."),
        (BUDGET, False, "failed", "No setting was tried. It ended."),
        (REPEATED, False, "failed", "No setting was tried. It ended."),
        (EXHAUSTED, True, "no_gain", "No setting came out faster than the program as it is."),
    ],
)
def test_where_no_setting_was_tried_none_is_said_to_be_no_faster(
    why: str, tried: bool, outcome: str, words: str
) -> None:
    as_it_is = builders.trial(0, {}, 100.0)
    trials = (as_it_is, *[builders.trial(1, {"threads": 1}, 90.0)] * tried)
    found = Found(trials=trials, best=as_it_is, ending=Ending(why=why, reason="It ended."))
    machine = builders.machine()
    context: Any = SimpleNamespace(
        deadline=time.monotonic() + 60.0, machine=machine, options=Options()
    )
    verdict, _ = judging.judge(context, builders.profile(), SPACE, found)
    assert (verdict.outcome, verdict.reason) == (outcome, words)


def test_where_no_setting_could_be_held_to_the_memory_limit_that_is_said() -> None:
    of_unknown_size = builders.measurement(200.0, peak_bytes=None)
    trials = [
        builders.trial(0, {}, 100.0),
        builders.trial(1, {"num_workers": 2}, of_unknown_size),
        builders.trial(2, {"num_workers": 4}, Failure(kind="busy", reason="other work")),
    ]
    reason = judging._why_unknown(builders.profile(), trials, limited=True)
    assert reason.startswith("Of 2 settings tried none could be held to the memory limit")
    trials.append(builders.trial(3, {"threads": 1}, 90.0))
    assert not judging._why_unknown(builders.profile(), trials, limited=True)
    assert not judging._why_unknown(builders.profile(), trials[:2])
