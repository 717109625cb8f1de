"""One thread is timed beside the program's own."""

from dataclasses import replace
from typing import Any, cast

import pytest

from autotune.measurement.beside import one_blas_thread, one_thread
from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.workload.window import AS_IS, ONE_BLAS_THREAD, ONE_THREAD, REPLAY_DEVICE, Window
from tests import builders


class Stepping:
    """A run whose steps take so many seconds, by mode; it ends after so many windows."""

    def __init__(self, seconds: dict[str, float], *, windows: int = 100, **changes: Any) -> None:
        self.asked: list[str] = []
        self.step_seconds = seconds
        self._left = windows
        self.changes = changes

    def window(self, seconds: float, *, mode: str = AS_IS, steps: int = 1) -> Window:
        self._left -= 1
        if self._left < 0:
            raise RunEnded(Failure(kind="ended", reason="it is over"))
        self.asked.append(mode)
        taken = max(steps, round(seconds / self.step_seconds[mode]))
        given = builders.window(32 / self.step_seconds[mode], steps=taken, mode=mode)
        return replace(given, **{"threads": 1} | self.changes)


def timed_threads(run: Stepping, **changes: Any) -> tuple[float | None, dict[str, list[Window]]]:
    """What is said of one thread, by a program of two, and its windows."""
    seen = builders.seen(**{"device": "cpu", "threads": 2} | changes)
    known = Stepping(run.step_seconds, **run.changes)
    windows = {mode: [known.window(1.0, mode=mode)] for mode in (AS_IS, REPLAY_DEVICE)}
    faster = one_thread(cast("ProcessRun", run), seen, windows, seconds=1.0, cores=2)
    return faster, windows


def test_one_thread_is_timed_in_turns_with_those_of_the_program() -> None:
    run = Stepping({AS_IS: 0.02, REPLAY_DEVICE: 0.01, ONE_THREAD: 0.008})
    faster, windows = timed_threads(run)
    assert faster == pytest.approx(1.25, rel=0.05)
    assert run.asked[:8] == [ONE_THREAD] * 2 + [REPLAY_DEVICE] * 4 + [ONE_THREAD] * 2
    assert len(windows[ONE_THREAD]) == 4 and len(windows[REPLAY_DEVICE]) == 5


def test_without_a_loader_one_thread_is_timed_beside_the_program_as_it_is() -> None:
    run = Stepping({AS_IS: 0.02, REPLAY_DEVICE: 0.01, ONE_THREAD: 0.01})
    assert timed_threads(run, loader=None)[0] == pytest.approx(2.0, rel=0.05)
    assert set(run.asked) == {AS_IS, ONE_THREAD}


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"threads": 1}, 0.01),
        ({"device": "cuda:0"}, 0.01),
        ({"models": (replace(builders.seen().models[0], compiled="default"),)}, 0.01),
        ({}, 3.0),
    ],
)
def test_one_thread_is_not_timed_where_there_is_no_other_nor_time(
    changes: dict[str, Any], seconds: float
) -> None:
    run = Stepping({AS_IS: seconds, REPLAY_DEVICE: seconds, ONE_THREAD: seconds})
    assert timed_threads(run, **changes)[0] is None
    assert not run.asked


def test_where_validation_takes_nearly_all_the_time_one_thread_is_timed_in_fewer_turns() -> None:
    speeds = {AS_IS: 0.02, REPLAY_DEVICE: 0.01, ONE_THREAD: 0.008}
    some = Stepping(speeds, validation_seconds=15.0)  # beside the second that is known
    assert timed_threads(some)[0] and len(some.asked) == 2 * 2 * 2
    most = Stepping(speeds, validation_seconds=40.0)
    assert timed_threads(most)[0] is None and not most.asked


def test_of_threads_that_others_kept_from_processors_nothing_is_said() -> None:
    run = Stepping(
        {AS_IS: 0.01, REPLAY_DEVICE: 0.01, ONE_THREAD: 0.001},
        delayed_seconds=9.0,
        others_seconds=9.0,
    )
    faster, windows = timed_threads(run)
    assert faster is None and ONE_THREAD not in windows


def test_a_program_that_ends_meanwhile_says_nothing_of_one_thread() -> None:
    run = Stepping({AS_IS: 0.01, REPLAY_DEVICE: 0.01, ONE_THREAD: 0.01}, windows=9)
    faster, windows = timed_threads(run)
    assert faster is None and ONE_THREAD not in windows


def test_a_program_that_sets_its_threads_in_its_loop_says_nothing_of_one() -> None:
    run = Stepping({AS_IS: 0.01, REPLAY_DEVICE: 0.01, ONE_THREAD: 0.01}, threads=2)
    assert timed_threads(run)[0] is None


def timed_blas(run: Stepping, outside: float = 0.3, **changes: Any) -> float | None:
    """What is said of one thread for NumPy, by a program that is at torch but for `outside`."""
    seen = builders.seen(**{"device": "cpu", "blas_threads": 2, "loader": None} | changes)
    window = Stepping(run.step_seconds).window(1.0)
    known = replace(window, phases={"forward": (1 - outside) * window.seconds})
    cast_run = cast("ProcessRun", run)
    return one_blas_thread(cast_run, seen, {AS_IS: [known]}, seconds=1.0, cores=2)


def test_numpy_with_one_thread_is_timed_beside_the_program_as_it_is() -> None:
    run = Stepping({AS_IS: 0.03, ONE_BLAS_THREAD: 0.01})
    assert timed_blas(run) == pytest.approx(3.0, rel=0.05)
    assert set(run.asked) == {AS_IS, ONE_BLAS_THREAD}


@pytest.mark.parametrize(
    ("outside", "changes"),
    [
        (0.01, {}),
        (0.3, {"blas_threads": 1}),
        (0.3, {"blas_threads": 0}),
        (0.3, {"device": "cuda"}),
        (0.3, {"loader": replace(builders.seen().loader, num_workers=2)}),
    ],
)
def test_it_is_not_where_numpy_has_no_part_or_no_other_thread(
    outside: float, changes: dict[str, Any]
) -> None:
    run = Stepping({AS_IS: 0.03, ONE_BLAS_THREAD: 0.01})
    assert timed_blas(run, outside, **changes) is None
    assert not run.asked


def test_turns_that_overlap_say_of_numpy_that_it_is_not_faster() -> None:
    class Uneven(Stepping):
        def window(self, seconds: float, **asked: Any) -> Window:
            self.step_seconds[AS_IS] = 0.03 if len(self.asked) % 3 else 0.009
            return super().window(seconds, **asked)

    assert timed_blas(Uneven({AS_IS: 0.03, ONE_BLAS_THREAD: 0.01})) == 1.0
