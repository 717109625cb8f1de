"""What takes turns with the program as it is, after the trials."""

import math
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from autotune.flow import Options, measuring, trying
from autotune.flow.measuring import diverges
from autotune.flow.trying import Found, _to_judge
from autotune.listener import Listener
from autotune.measurement.measurement import Failure, Measurement
from autotune.profiling.profile import FROM_STORAGE, PROCESSORS_TAKEN, TOO_FEW_STEPS, Doubt
from autotune.trials.planner import Ranked
from autotune.trials.trial import BUDGET, EXHAUSTED, NOTHING, Ending, Trial
from autotune.workload.seen import Seen
from autotune.workload.window import Allocator
from tests import builders
from tests.flow.device import Device
from tests.trials.test_study import SPACE

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

    listener.stage.assert_called_once_with(
        "going on after 2 earlier trials, and the program as timed then"
    )
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
    monkeypatch.setattr(measuring, "measured", lambda *_: measured)
    doubts = (Doubt(name=doubt, evidence="", advice=""),)
    profiled = replace(AS_IT_IS.outcome, doubts=doubts)

    outcome = measuring.as_it_is(context, builders.profile(), profiled)

    assert outcome is (taken or profiled)


@pytest.mark.parametrize(
    ("read_bytes", "times", "taken"),
    [((0, 0), 1, 0), ((9 << 20, 0), 2, 1), ((9 << 20, 9 << 20), 2, 1), ((None, 0), 1, 0)],
    ids=["in memory", "further samples", "always read", "unknown"],
)
def test_the_program_as_it_is_is_timed_anew_until_it_finds_its_samples_in_memory(
    monkeypatch: pytest.MonkeyPatch, read_bytes: tuple[int | None, ...], times: int, taken: int
) -> None:
    runs = [
        builders.measurement(140.0, windows=(builders.window(read_bytes=each),))
        for each in read_bytes
    ]
    later = iter(runs)
    monkeypatch.setattr(measuring, "measured", lambda *_: next(later))
    doubts = (Doubt(name=FROM_STORAGE, evidence="", advice=""),)
    profiled = replace(AS_IT_IS.outcome, doubts=doubts)

    assert measuring.as_it_is(IN_TIME, builders.profile(), profiled) is runs[taken]
    assert len(list(later)) == len(runs) - times


@pytest.mark.parametrize(
    ("limit", "config", "known"),
    [(1000, {"threads": 1}, False), (None, {"threads": 1}, True), (1000, {}, True)],
    ids=["a limit", "no limit", "as it is"],
)
def test_under_a_limit_it_is_said_of_what_the_memory_is_not_known(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, config: dict[str, Any], known: bool
) -> None:
    measured = replace(AS_IT_IS.outcome, peak_bytes=None)
    monkeypatch.setattr(trying, "measured", lambda *_: measured)
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


def test_a_trial_that_leaves_out_batches_for_want_of_memory_is_a_failure() -> None:
    def measured(*counts: int, drawn: int = 12) -> Measurement:
        """Two windows of 12 steps, with so many batches drawn for them."""
        known = (Allocator(out_of_memories=count) for count in counts)
        return builders.measurement(
            180.0,
            windows=tuple(
                builders.window(allocator=each, samples=drawn * builders.BATCH) for each in known
            ),
        )

    calm, caught = measured(3, 3), measured(3, 5)
    left = measured(3, 5, drawn=14)
    for tried, own in ((calm, calm), (left, measured(0, 1, drawn=13)), (BUSY, calm)):
        assert measuring._with_all_batches(tried, own) is tried
    # Torch itself had no memory for what it can do without: as many batches as ever were drawn.
    for tried, own in ((caught, calm), (caught, caught)):
        assert measuring._with_all_batches(tried, own) is tried
    varying = replace(calm, seen=own_batches(calm.seen))
    for tried, own in ((left, calm), (caught, varying)):
        outcome = measuring._with_all_batches(tried, own)
        assert isinstance(outcome, Failure) and outcome.kind == "out_of_memory"
        assert "2 times" in outcome.reason


def own_batches(seen: Seen) -> Seen:
    """A sampler of its own makes the batches, of as many samples as it likes."""
    assert seen.loader is not None
    return replace(seen, loader=replace(seen.loader, batch_size=None))


def test_a_training_whose_every_step_is_left_out_diverges() -> None:
    assert diverges(builders.measurement(180.0, windows=(builders.window(skipped_steps=12),)))


def test_trials_of_which_none_could_be_measured_are_not_enough() -> None:
    crashed = [builders.trial(number, {"threads": 1}, BUSY) for number in (1, 2, 3)]
    assert not trying._are_enough([AS_IT_IS, *crashed])
    assert trying._are_enough([AS_IT_IS, *crashed, FAR])
    assert not trying._are_enough([AS_IT_IS, FAR])


@pytest.mark.parametrize(
    ("startup_seconds", "budget_seconds", "said"),
    [
        (25.0, 90.0, 30 + 5 * (25 + 3.6 + 1)),
        (0.5, 40.0, 30 + 5 * (0.5 + 3.6 + 1)),
        (0.5, 54.0, None),
        (25.0, 300.0, None),
        (0.5, 20.0, None),
    ],
    ids=["slow starts", "little left", "nearly enough", "time enough", "nothing left"],
)
def test_what_a_budget_has_no_time_for_is_known_before(
    startup_seconds: float, budget_seconds: float, said: float | None
) -> None:
    context: Any = SimpleNamespace(
        spent_seconds=30.0,
        run_seconds=3.6,
        options=SimpleNamespace(budget_seconds=budget_seconds),
    )

    found = trying.overtime(context, builders.profile(startup_seconds=startup_seconds))

    assert found == (said if said is None else pytest.approx(said))


def test_what_is_compiled_once_is_in_no_later_start() -> None:
    context: Any = SimpleNamespace(
        spent_seconds=30.0, run_seconds=1.0, options=SimpleNamespace(budget_seconds=90.0)
    )
    first = builders.profile(startup_seconds=46.0, compiling_seconds=40.0)

    assert trying.overtime(context, first) is None
    assert trying.overtime(context, replace(first, compiling_seconds=20.0)) is not None
    assert trying.later_start_seconds(first) == 6.0


class Shared:
    """A study that others try too: what is awaited, what was tried, and the ending, by turns."""

    def __init__(self, *after: Any) -> None:
        self.trials: list[Any] = []
        self.best = self.ending = None
        self.space = SPACE
        self.too_dear = self.awaited = ""
        self._asked = iter(after)
        self.waited_seconds: list[float] = []

    def look(self) -> None:
        """There is nothing new."""

    def ask(self, seconds_left: float) -> None:
        self.awaited, self.trials, self.ending = next(self._asked)

    def await_others(self, seconds: float) -> None:
        if self.awaited:
            self.waited_seconds.append(seconds)


FIRST, OTHERS = "another search's first trial", "1 trial of other searches"


def tried(study: Shared, device: Device, *, seconds: float = 60.0) -> tuple[Ending, list[str]]:
    listener = Mock(spec=Listener)
    now = time.monotonic()
    context: Any = SimpleNamespace(
        options=Options(),
        listener=listener,
        device=device,
        deadline=now + 2 * seconds,
        trials_deadline=now + seconds,
    )
    baseline = replace(AS_IT_IS.outcome, losses=())
    ending = trying._try_all(context, builders.profile(), SPACE, baseline, study)  # type: ignore[arg-type]
    return ending, [call.args[0] for call in listener.stage.call_args_list]


def test_others_are_waited_for_without_the_device_and_that_is_said_once() -> None:
    device, exhausted = Device(), Ending(why=EXHAUSTED, reason="All was tried.")
    first = (FIRST, [], None)
    study = Shared(first, first, (OTHERS, [AS_IT_IS], None), ("", [FAR], exhausted))

    def await_others(seconds: float) -> None:
        assert not device.is_held
        Shared.await_others(study, seconds)

    study.await_others = await_others  # type: ignore[method-assign]
    ending, said = tried(study, device)
    assert ending is exhausted
    assert said == [f"waiting for {FIRST}", f"waiting for {OTHERS}"]
    assert study.waited_seconds == pytest.approx([120.0, 120.0, 60.0], abs=10.0)


def test_others_are_waited_for_as_long_as_there_is_time_for_trials() -> None:
    study = Shared()
    study.trials, study.awaited = [AS_IT_IS], OTHERS
    ending, _ = tried(study, Device(), seconds=-1.0)
    assert (ending.why, OTHERS in ending.reason) == (BUDGET, True)


@pytest.mark.parametrize(
    ("best", "startup_seconds", "ends"),
    [
        (FAR, 2.0, 66.0),  # its share is kept back for judging it
        (AS_IT_IS, 2.0, 120.0 - 3 * (2.0 + 4.0)),
        (AS_IT_IS, 60.0, 66.0),
        (None, 2.0, 66.0),
    ],
)
def test_while_nothing_is_ahead_of_the_program_as_it_is_trials_have_the_time_for_judging(
    best: Trial | None, startup_seconds: float, ends: float
) -> None:
    context: Any = SimpleNamespace(trials_deadline=66.0, deadline=120.0, run_seconds=4.0)
    profiled = builders.profile(startup_seconds=startup_seconds)
    assert trying.trials_end(context, profiled, best) == ends
