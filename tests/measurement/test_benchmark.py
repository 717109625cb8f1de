"""A run is timed again where other programs had the processors, as long as there is time for it."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from autotune.measurement import benchmark
from autotune.measurement.benchmark import ATTEMPTS_ON_A_BUSY_MACHINE, time_run
from autotune.measurement.measurement import Failure, Measurement
from autotune.measurement.processes.process import RunEnded
from autotune.measurement.readings.telemetry import Sampled
from autotune.profiling.telemetry import Telemetry
from autotune.workload.seen import Seen
from autotune.workload.window import Window
from tests import builders


class Starved:
    """A live run that waits for a processor all the time."""

    startup_seconds = 0.1
    first_steps, first_seconds = 0, 0.0
    pid = 4711

    def await_first_step(self) -> None: ...

    def kill(self) -> None: ...

    def seen(self) -> Seen:
        return builders.seen()

    def window(self, *_: object, **__: object) -> Window:
        return builders.window(cpu_seconds=0.1, delayed_seconds=100.0)


@pytest.mark.parametrize(("deadline", "starts"), [(math.inf, ATTEMPTS_ON_A_BUSY_MACHINE), (0.0, 1)])
def test_a_busy_machine_is_tried_again_while_there_is_time(deadline: float, starts: int) -> None:
    started: list[Starved] = []

    def start() -> Starved:
        started.append(Starved())
        return started[-1]

    outcome = time_run(
        start,  # type: ignore[arg-type]
        seconds=0.01,
        cores=2,
        warm_seconds=0.0,
        deadline=deadline,
    )
    assert isinstance(outcome, Failure) and outcome.kind == "busy"
    assert len(started) == starts


class Loaded(Starved):
    """A live run whose four workers each had two batches ready; a window holds two steps."""

    def seen(self) -> Seen:
        loader = builders.seen().loader
        assert loader is not None
        return builders.seen(loader=replace(loader, num_workers=4, prefetch_factor=2))

    def window(self, *_: object, **__: object) -> Window:
        return builders.window(steps=2)


def test_a_run_is_not_ended_before_a_whole_burst_of_its_loader_was_timed() -> None:
    asked: list[int] = []

    def enough(windows: list[Window]) -> bool:
        asked.append(sum(window.steps for window in windows))
        return True

    time_run(
        Loaded,  # type: ignore[arg-type]
        seconds=60.0,
        cores=2,
        warm_seconds=0.0,
        enough=enough,
    )
    assert asked == [8]


def on_a_device(monkeypatch: pytest.MonkeyPatch, telemetry: Telemetry) -> Measurement:
    """A run on a device that says this."""

    @contextmanager
    def said(seen: Seen, run_pid: int) -> Iterator[Sampled]:
        found = Sampled()
        yield found
        found.telemetry = telemetry

    monkeypatch.setattr(benchmark, "sampled", said)
    outcome = time_run(
        Loaded,  # type: ignore[arg-type]
        seconds=0.01,
        cores=2,
        warm_seconds=0.0,
    )
    assert isinstance(outcome, Measurement)
    return outcome


def test_a_device_that_others_use_makes_its_measurement_doubtful(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Telemetry(seconds=1.0, readings=9, power_watts=90.0, other_processes=1)
    outcome = on_a_device(monkeypatch, shared)
    assert "device shared" in [doubt.name for doubt in outcome.doubts]
    assert outcome.joules_per_sample is None


def test_a_run_has_the_energy_of_its_samples_where_the_device_says_what_it_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcome = on_a_device(monkeypatch, Telemetry(seconds=1.0, readings=9, power_watts=90.0))
    assert outcome.joules_per_sample == pytest.approx(90.0 / outcome.samples_per_second, rel=0.01)
    monkeypatch.setattr(Loaded, "seen", lambda _: builders.seen(gpus=2))
    several = on_a_device(monkeypatch, Telemetry(seconds=1.0, readings=9, power_watts=90.0))
    assert several.joules_per_sample is None


class Diverging(Starved):
    """A live run of which one loss in ten is no number."""

    def window(self, *_: object, **__: object) -> Window:
        return builders.window(losses=(math.nan, *([1.0] * 9)))


@pytest.mark.parametrize(("most", "counts"), [(0.0, False), (0.5, True)])
def test_losses_that_are_no_numbers_are_a_failure_beyond_what_is_tolerated(
    most: float, counts: bool
) -> None:
    outcome = time_run(
        Diverging,  # type: ignore[arg-type]
        seconds=0.01,
        cores=2,
        warm_seconds=0.0,
        most_not_finite=most,
    )
    assert isinstance(outcome, Measurement) == counts
    assert counts or (isinstance(outcome, Failure) and outcome.kind == "not_finite")


class LeavingOut(Starved):
    """A live run whose GradScaler leaves out all of twelve steps, or twelve beside them."""

    calls_the_optimizer = True

    def window(self, *_: object, **__: object) -> Window:
        losses = 12 if self.calls_the_optimizer else 24
        return builders.window(steps=12, skipped_steps=12, losses=(1.0,) * losses)


class LeavingOutSome(LeavingOut):
    calls_the_optimizer = False


def test_a_run_whose_every_step_is_left_out_is_a_failure() -> None:
    given: dict[str, Any] = {"seconds": 0.01, "cores": 2, "warm_seconds": 0.0}
    outcome = time_run(LeavingOut, **given)  # type: ignore[arg-type]
    assert isinstance(outcome, Failure) and outcome.kind == "not_finite"
    assert "every step was left out" in outcome.reason
    assert isinstance(time_run(LeavingOutSome, **given), Measurement)  # type: ignore[arg-type]


class Short(Starved):
    """A live run whose program ends in its third window."""

    def __init__(self) -> None:
        self._windows = iter([builders.window(100.0), builders.window(300.0)])

    def window(self, *_: object, **__: object) -> Window:
        if (found := next(self._windows, None)) is None:
            raise RunEnded(Failure(kind="ended", reason="It ended."), builders.window(200.0))
        return found


def test_a_program_that_ends_while_it_warms_up_is_timed_from_its_start_to_its_end() -> None:
    outcome = time_run(Short, seconds=1.0, cores=2)  # type: ignore[arg-type]
    assert isinstance(outcome, Measurement)
    assert len(outcome.windows) == 3


class Compiling(Loaded):
    """A live run whose windows come at these speeds."""

    def __init__(self, *rates: float, compiled: str) -> None:
        self._rates = list(rates)
        self._compiled = compiled

    def seen(self) -> Seen:
        (model,) = builders.seen().models
        return builders.seen(models=(replace(model, compiled=self._compiled),))

    def window(self, *_: object, **__: object) -> Window:
        if not self._rates:
            raise RunEnded(Failure(kind="ended", reason="It came to its end."))
        return builders.window(self._rates.pop(0))


@pytest.mark.parametrize(
    ("compiled", "rates", "counted"),
    [
        ("default", (40, 780, 790, 800, 785, 795), 5),
        ("default", (780, 40, 790, 800, 785, 795), 4),
        ("default", (780, 790, 800, 785, 40, 795), 6),  # not over in the first half
        ("default", (400, 780, 790, 800, 785, 795), 6),
        ("off", (40, 780, 790, 800, 785, 795), 6),
    ],
)
def test_what_a_late_compilation_takes_is_warm_up(
    compiled: str, rates: tuple[float, ...], counted: int
) -> None:
    run = Compiling(790, *rates, compiled=compiled)
    outcome = time_run(
        lambda: run,  # type: ignore[arg-type, return-value]
        seconds=60.0,
        cores=2,
        warm_seconds=0.0,
    )
    assert isinstance(outcome, Measurement)
    assert len(outcome.windows) == counted
