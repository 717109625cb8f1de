"""A run is timed again where other programs had the processors, as long as there is time for it."""

import math

import pytest

from autotune.measurement.benchmark import ATTEMPTS_ON_A_BUSY_MACHINE, time_run
from autotune.measurement.measurement import Failure
from autotune.workload.seen import Seen
from autotune.workload.window import Window
from tests import builders


class Starved:
    """A live run that waits for a processor all the time."""

    startup_seconds = 0.1

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
