"""What a profile's windows come to, and what is said against it; the windows are made up."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.errors import MeasurementError, ProgramError
from autotune.flow import Options, profiling
from autotune.flow.profiling import profile_program
from autotune.listener import Listener
from autotune.measurement.ablated import Ablation
from autotune.measurement.measurement import Failure, Measurement
from autotune.measurement.processes.endings import NOT_WATCHED
from autotune.measurement.processes.process import RunEnded
from autotune.outputs.wording import cautions
from autotune.profiling.profile import NOT_ALL_FINITE, NOT_FINITE, PROCESSORS_TAKEN, Profile
from autotune.workload.program.target import SCRIPT, Target
from autotune.workload.window import AS_IS, DRAIN, Window
from tests import builders


def fair(speed: float = 180.0, **changes: Any) -> Window:
    return builders.window(speed, **changes)


def starved(speed: float = 90.0, **changes: Any) -> Window:
    window = builders.window(speed, **changes)
    return builders.window(speed, delayed_seconds=window.seconds, cpu_seconds=0.0, **changes)


def profiled(
    monkeypatch: pytest.MonkeyPatch,
    outcome: Failure | dict[str, list[Window]],
    bench: SimpleNamespace | None = None,
    listener: Listener | None = None,
) -> tuple[Profile, Measurement]:
    def ablate(start: Callable[[], Any], **_: Any) -> Ablation:
        start()
        if isinstance(outcome, Failure):
            raise RunEnded(outcome)
        return Ablation(seen=builders.seen(), warm=[], startup_seconds=0.4, windows=outcome)

    monkeypatch.setattr(profiling, "ablate", ablate)
    bench = bench or SimpleNamespace()
    vars(bench).update(call=lambda *_: 0.2, passed_loops=0, compiling_seconds=None)
    vars(bench).setdefault("observe", lambda _: None)
    context: Any = SimpleNamespace(
        listener=listener or Listener(),
        machine=builders.machine(),
        bench=bench,
        options=Options(),
        target=Target(kind=SCRIPT, path="/home/ada/train.py", directory="/home/ada", source=""),
        seconds=lambda *_: 1.0,
        warm_seconds=1.0,
        trials_deadline=0.0,
    )
    return profile_program(context)


def test_windows_without_their_processors_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    profile, baseline = profiled(monkeypatch, {AS_IS: [fair(), starved(), fair()]})

    assert profile.samples_per_second == pytest.approx(fair().samples_per_second)
    assert baseline.samples_per_second == profile.samples_per_second
    assert profile.doubt(PROCESSORS_TAKEN) is None


def test_once_the_program_has_started_its_profiling_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    class Told(Listener):
        def stage(self, name: str) -> None:
            told.append(name)

    bench = SimpleNamespace(observe=lambda _: told.append("its first step"))
    profiled(monkeypatch, {AS_IS: [fair(), fair()]}, bench, Told())
    assert told == ["starting the program", "its first step", "profiling its training steps"]


def test_how_long_no_step_came_of_it_is_kept_for_later_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = SimpleNamespace()
    validated = fair(step_seconds=(0.1, 0.3), validation_seconds=70.0, validations=1)
    profiled(monkeypatch, {AS_IS: [fair(), validated, fair()]}, bench)
    assert bench.longest_gap_seconds == pytest.approx(70.3)


@pytest.mark.parametrize("mode", [AS_IS, DRAIN])
def test_a_profile_without_its_processors_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    windows = {AS_IS: [fair(), fair()], mode: [starved(mode=mode), fair(mode=mode)]}

    profile, baseline = profiled(monkeypatch, windows)

    doubt = profile.doubt(PROCESSORS_TAKEN)
    assert doubt is not None
    assert doubt.evidence.startswith("In 1 of 2 windows")
    assert baseline.doubts == profile.doubts


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_said(monkeypatch: pytest.MonkeyPatch, loss: float) -> None:
    profile, _ = profiled(monkeypatch, {AS_IS: [fair(losses=(0.5, 0.5)), fair(losses=(loss,))]})

    doubt = profile.doubt(NOT_FINITE)
    assert doubt is not None
    assert "in 1 of 3 steps" in doubt.evidence
    assert "Mend the training first" in doubt.advice


@pytest.mark.parametrize(
    ("losses", "name"),
    [
        ((0.5, math.nan, 0.5), NOT_ALL_FINITE),
        ((math.inf, math.nan, 0.5), NOT_FINITE),
    ],
)
def test_a_loss_that_is_no_number_once_does_not_say_that_the_training_diverges(
    monkeypatch: pytest.MonkeyPatch, losses: tuple[float, ...], name: str
) -> None:
    """A mean over labels that are all ignored is none, and its gradients are zeros."""
    profile, _ = profiled(monkeypatch, {AS_IS: [fair(losses=losses)]})

    assert [doubt.name for doubt in profile.doubts] == [name]
    (said, _), *_ = cautions(profile)
    assert ("mend the training" in said) is (name == NOT_FINITE)


def test_a_loss_that_never_was_a_number_may_come_from_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile, _ = profiled(monkeypatch, {AS_IS: [fair(losses=(math.nan, math.nan))]})

    doubt = profile.doubt(NOT_FINITE)
    assert doubt is not None
    assert "never given a value" in doubt.advice


def test_a_program_that_refuses_its_arguments_says_where_they_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = Failure(kind="crashed", reason="it left with exit code 2", output="usage: train.py")

    with pytest.raises(ProgramError, match="did not take its arguments") as error:
        profiled(monkeypatch, refused)

    assert "go after --: train.py -- ARGS" in error.value.advice
    assert error.value.output == "usage: train.py"


def test_an_error_that_speaks_of_an_exit_code_is_none_of_its_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = Failure(kind="crashed", reason="RuntimeError: nvcc failed with exit code 2")
    with pytest.raises(ProgramError, match="failed: RuntimeError: nvcc failed"):
        profiled(monkeypatch, failed)


@pytest.mark.parametrize("kind", ["ended", "hung"])
def test_a_program_that_trains_in_processes_of_its_own_is_told_what_can_be_measured(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with pytest.raises(MeasurementError, match="not watched") as error:
        profiled(monkeypatch, Failure(kind=kind, reason=f"it has not trained; {NOT_WATCHED}"))

    assert "a single process" in error.value.advice


OVER = Failure(kind="ended", reason="its training loop was over after 31 training steps")
CRASHED = Failure(kind="crashed", reason="no")


class Loops:
    """A program of several training loops: what timing each of them gives, in their order.

    A number is for how many seconds a loop lasts that another one follows.
    """

    def __init__(self, *given: float | Failure | Ablation) -> None:
        self.given = given
        self.bench = SimpleNamespace(observe=None, passed_loops=0, compiling_seconds=None)

    def ablate(self, *_: Any, only_loop: bool, **__: Any) -> Ablation:
        found = self.given[self.bench.passed_loops]
        if isinstance(found, Ablation):
            return found
        if isinstance(found, Failure):
            raise RunEnded(found)
        if not only_loop:
            raise RunEnded(OVER, loop_seconds=found)
        return timed(found)

    def measured(self, monkeypatch: pytest.MonkeyPatch) -> int:
        """How many loops come before the one that is measured."""
        monkeypatch.setattr(profiling, "ablate", self.ablate)
        context: Any = SimpleNamespace(
            options=Options(),
            bench=self.bench,
            listener=Listener(),
            machine=builders.machine(),
            seconds=lambda *_: 1.0,
            target=SimpleNamespace(path="train.py"),
            trials_deadline=0.0,
            warm_seconds=1.0,
        )
        profiling._ablate(context)
        return int(self.bench.passed_loops)


def timed(seconds: float, *, ended: bool = False) -> Ablation:
    windows = {AS_IS: [builders.window(seconds=seconds)]}
    return Ablation(
        seen=builders.seen(), warm=[], startup_seconds=0.1, windows=windows, ended=ended
    )


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ((timed(5.0),), 0),
        ((3.0, timed(5.0)), 1),
        ((3.0, 2.0, timed(5.0)), 2),
        ((3.0, timed(5.0, ended=True)), 1),
        ((3.0, timed(1.0, ended=True)), 0),
        ((3.0, OVER), 0),
        ((1.0, 3.0, CRASHED), 1),
        ((1.0, 1.0, 4.0, 2.0, 9.0), 2),
    ],
    ids=[
        "only one",
        "a short one first",
        "two short ones first",
        "both are short",
        "the later is shorter",
        "the later is over at once",
        "the last fails",
        "no end of them",
    ],
)
def test_the_loop_that_lasts_is_measured(
    monkeypatch: pytest.MonkeyPatch, given: tuple[Any, ...], passed: int
) -> None:
    assert Loops(*given).measured(monkeypatch) == passed


def test_a_program_that_fails_in_its_first_loop_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProgramError, match="no"):
        Loops(CRASHED).measured(monkeypatch)
