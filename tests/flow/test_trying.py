"""What takes turns with the program as it is, after the trials."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from autotune.flow import trying
from autotune.flow.trying import Found, _to_judge, diverges
from autotune.listener import Listener
from autotune.measurement.measurement import Failure
from autotune.profiling.profile import PROCESSORS_TAKEN, TOO_FEW_STEPS, Doubt
from autotune.trials.planner import Ranked
from autotune.trials.trial import NOTHING, Ending
from tests import builders

AS_IT_IS = builders.trial(0, {}, 100.0)
NEAR = builders.trial(1, {"threads": 1}, 90.0)
FAR = builders.trial(2, {"num_workers": 2}, 60.0)
IN_TIME: Any = SimpleNamespace(trials_deadline=math.inf)
TOO_LATE: Any = SimpleNamespace(trials_deadline=-math.inf)


def ranked(*trials: Any) -> list[Ranked]:
    return [Ranked(trial=each, mean=0.0, sd=0.1) for each in trials]


@pytest.mark.parametrize(
    ("context", "best", "others", "judged"),
    [
        (IN_TIME, AS_IT_IS, (FAR, NEAR), NEAR),
        (IN_TIME, AS_IT_IS, (FAR,), AS_IT_IS),
        (TOO_LATE, AS_IT_IS, (NEAR,), AS_IT_IS),
        (IN_TIME, FAR, (FAR, NEAR), FAR),
    ],
    ids=["the next best", "none that is far behind", "none without time", "the best itself"],
)
def test_a_lucky_moment_of_the_program_as_it_is_is_looked_at_again(
    context: Any, best: Any, others: Any, judged: Any
) -> None:
    assert _to_judge(context, best, ranked(AS_IT_IS, *others)) is judged


def test_trials_that_go_on_begin_with_the_program_as_it_is() -> None:
    listener = Mock(spec=Listener)
    study: Any = SimpleNamespace(trials=[AS_IT_IS, FAR], best=FAR)
    context: Any = SimpleNamespace(listener=listener)

    trying._tell_of_earlier(context, study)

    listener.stage.assert_called_once_with("going on after 2 trials of an earlier search")
    listener.trial_ended.assert_called_once_with(AS_IT_IS, FAR)


def test_what_compiling_costs_at_each_start_is_known() -> None:
    compiled = builders.trial(3, {"compile": "default"}, 140.0)
    compiled = replace(compiled, outcome=replace(compiled.outcome, startup_seconds=21.0))
    usual = replace(AS_IT_IS, outcome=replace(AS_IT_IS.outcome, startup_seconds=1.0))
    ending = Ending(why=NOTHING, reason="")

    for best, seconds in ((compiled, 20.0), (usual, 0.0)):
        found = Found(trials=(usual, compiled), best=best, ending=ending)
        assert found.start_seconds(best.config) == seconds
        assert found.start_seconds({"threads": 1}) == seconds  # that was not tried


AGAIN = replace(AS_IT_IS.outcome, samples_per_second=140.0)
BUSY = Failure(kind="busy", reason="other work")


@pytest.mark.parametrize(
    ("doubt", "context", "measured", "taken"),
    [
        (TOO_FEW_STEPS, IN_TIME, AGAIN, AGAIN),
        (PROCESSORS_TAKEN, IN_TIME, AGAIN, AGAIN),
        (PROCESSORS_TAKEN, IN_TIME, BUSY, None),
        (TOO_FEW_STEPS, TOO_LATE, AGAIN, None),
        ("unstable", IN_TIME, AGAIN, None),
    ],
    ids=["few steps", "taken", "busy still", "no time", "only unstable"],
)
def test_a_profile_of_a_machine_that_stood_still_is_no_measure_for_the_trials(
    monkeypatch: pytest.MonkeyPatch, doubt: str, context: Any, measured: Any, taken: Any
) -> None:
    monkeypatch.setattr(trying, "_measure", lambda *_: measured)
    doubts = (Doubt(name=doubt, evidence="", advice=""),)
    profiled = replace(AS_IT_IS.outcome, doubts=doubts)

    outcome = trying._as_it_is(context, builders.profile(), profiled)

    assert outcome is (taken or profiled)


@pytest.mark.parametrize(
    ("limit", "config", "known"),
    [(1000, {"threads": 1}, False), (None, {"threads": 1}, True), (1000, {}, True)],
    ids=["a limit", "no limit", "as it is"],
)
def test_under_a_limit_it_is_said_of_what_the_memory_is_not_known(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, config: dict[str, Any], known: bool
) -> None:
    measured = replace(AS_IT_IS.outcome, peak_bytes=None)
    monkeypatch.setattr(trying, "_measure", lambda *_: measured)
    study: Any = Mock(trials=[], ranked=(), best=None)
    study.ask.return_value = (1, config)
    context: Any = SimpleNamespace(
        trials_deadline=math.inf,
        deadline=math.inf,
        listener=Mock(spec=Listener),
        options=SimpleNamespace(trials=None, memory_limit_bytes=limit),
    )
    trying._try_next(context, builders.profile(), builders.space(), measured, study)
    (told,), _ = study.tell.call_args
    assert ("peak memory unknown" not in [doubt.name for doubt in told.outcome.doubts]) is known


@pytest.mark.parametrize(
    ("losses", "wrong"),
    [((math.nan,) * 5 + (1.0,), True), ((math.inf, 2.0, 1.0), False), ((), False)],
    ids=["most", "a scaler's first steps", "none"],
)
def test_a_training_whose_losses_are_no_numbers_diverges(
    losses: tuple[float, ...], wrong: bool
) -> None:
    assert diverges(replace(AS_IT_IS.outcome, losses=losses)) is wrong


def test_trials_of_which_none_could_be_measured_are_not_enough() -> None:
    crashed = [builders.trial(number, {"threads": 1}, BUSY) for number in (1, 2, 3)]
    assert not trying._are_enough([AS_IT_IS, *crashed])
    assert trying._are_enough([AS_IT_IS, *crashed, FAR])
    assert not trying._are_enough([AS_IT_IS, FAR])
