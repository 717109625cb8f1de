"""What a profile's windows come to, and what is said against it; the windows are made up."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.errors import MeasurementError, ProgramError
from autotune.flow import Options, profiling
from autotune.flow.profiling import profile_program
from autotune.listener import Listener
from autotune.measurement.ablation import Ablation
from autotune.measurement.measurement import Failure, Measurement
from autotune.measurement.process import NOT_WATCHED, RunEnded
from autotune.profiling.profile import NOT_FINITE, PROCESSORS_TAKEN, Profile
from autotune.workload.window import AS_IS, DRAIN, Window
from tests import builders


def fair(speed: float = 180.0, **changes: Any) -> Window:
    return builders.window(speed, **changes)


def starved(speed: float = 90.0, **changes: Any) -> Window:
    window = builders.window(speed, **changes)
    return builders.window(speed, delayed_seconds=window.seconds, cpu_seconds=0.0, **changes)


def profiled(
    monkeypatch: pytest.MonkeyPatch, outcome: Failure | dict[str, list[Window]]
) -> tuple[Profile, Measurement]:
    def ablate(*_: Any, **__: Any) -> Ablation:
        if isinstance(outcome, Failure):
            raise RunEnded(outcome)
        return Ablation(seen=builders.seen(), warm=[], startup_seconds=0.4, windows=outcome)

    monkeypatch.setattr(profiling, "ablate", ablate)
    context: Any = SimpleNamespace(
        listener=Listener(),
        machine=builders.machine(),
        bench=SimpleNamespace(observe=None, call=lambda *_: 0.2),
        options=Options(),
        target=SimpleNamespace(path="/home/ada/train.py"),
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
    profile, _ = profiled(monkeypatch, {AS_IS: [fair(losses=(0.5, loss)), fair(losses=(0.5,))]})

    doubt = profile.doubt(NOT_FINITE)
    assert doubt is not None
    assert "in 1 of 3 steps" in doubt.evidence


def test_a_program_that_refuses_its_arguments_says_where_they_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = Failure(kind="crashed", reason="it left with exit code 2", output="usage: train.py")

    with pytest.raises(ProgramError, match="did not take its arguments") as error:
        profiled(monkeypatch, refused)

    assert "go after --: autotune profile train.py -- ARGS" in error.value.advice
    assert error.value.output == "usage: train.py"


@pytest.mark.parametrize("kind", ["ended", "hung"])
def test_a_program_that_trains_in_processes_of_its_own_is_told_what_can_be_measured(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with pytest.raises(MeasurementError, match="not watched") as error:
        profiled(monkeypatch, Failure(kind=kind, reason=f"it has not trained; {NOT_WATCHED}"))

    assert "a single process" in error.value.advice
