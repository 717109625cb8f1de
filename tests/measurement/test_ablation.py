"""A program is timed with its costs taken away, also one that ends before that is done."""

from dataclasses import replace
from typing import Any, cast

import pytest

from autotune.measurement.ablation import Ablation, _begin, _one_thread, ablate
from autotune.measurement.measurement import Failure
from autotune.measurement.process import ProcessRun, RunEnded
from autotune.workload.window import AS_IS, DRAIN, ONE_THREAD, REPLAY_DEVICE, Window
from tests import builders
from tests.measurement.conftest import Start
from tests.workload.programs import PLAIN


def test_a_program_is_timed_in_every_mode(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(50000)")
    ablation = ablate(lambda: start(text), seconds=1.0, cores=2, warm_seconds=1.0)
    assert set(ablation.windows) - {ONE_THREAD} == {AS_IS, REPLAY_DEVICE, DRAIN}
    assert not ablation.ended


def test_a_program_that_ends_at_once_is_started_again_for_what_is_missing(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(3)")
    ablation = ablate(lambda: start(text), seconds=1.0, cores=2, warm_seconds=1.0)
    assert ablation.ended
    assert sum(window.steps for window in ablation.windows[AS_IS]) > 3
    assert DRAIN in ablation.windows


def test_a_program_that_fails_in_one_mode_is_timed_in_the_others(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(50000)").replace(
        "        optimizer.zero_grad()",
        """        if torch.equal(x, before):
            raise ValueError("the same batch twice")
        before = x
        optimizer.zero_grad()""",
    )
    text = text.replace("for epoch", "before = torch.zeros(())\nfor epoch", 1)
    ablation = ablate(lambda: start(text), seconds=1.0, cores=2, warm_seconds=1.0)
    assert set(ablation.windows) == {AS_IS, DRAIN}
    assert "the same batch twice" in ablation.reasons[REPLAY_DEVICE]
    assert DRAIN not in ablation.reasons


def test_of_a_program_that_ends_while_it_warms_up_nothing_counts_twice(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(3)")  # seven steps an epoch
    ablation = _begin(start(text), warm_seconds=60.0)
    assert ablation.ended and not ablation.warm
    assert sum(window.steps for window in ablation.windows[AS_IS]) == 3 * 7 - 1  # but the first


REMEMBERING = PLAIN.replace("range(50)", "range(50000)").replace(
    "loader = DataLoader(dataset, batch_size=32",
    """
class Photos(torch.utils.data.Dataset):
    def __init__(self):
        self.cache = {}
    def __len__(self):
        return LENGTH
    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = dataset[index % 200]
        return self.cache[index]

loader = DataLoader(Photos(), batch_size=2""",
)


def test_a_dataset_that_keeps_what_it_reads_is_told(start: Start) -> None:
    text = REMEMBERING.replace("LENGTH", "1000000")
    ablation = ablate(lambda: start(text), seconds=0.5, cores=2, warm_seconds=0.5)
    assert ablation.kept == ("Photos.cache",)


def test_a_dataset_that_has_kept_all_of_it_is_nothing_to_tell(start: Start) -> None:
    text = REMEMBERING.replace("LENGTH", "8")
    ablation = ablate(lambda: start(text), seconds=0.5, cores=2, warm_seconds=0.5)
    assert ablation.kept == ()


class Stepping:
    """A run whose steps take so many seconds, by mode; it ends after so many windows."""

    def __init__(self, seconds: dict[str, float], *, windows: int = 100, **changes: Any) -> None:
        self.asked: list[str] = []
        self._seconds = seconds
        self._left = windows
        self._changes = changes

    def window(self, seconds: float, *, mode: str = AS_IS, steps: int = 1) -> Window:
        self._left -= 1
        if self._left < 0:
            raise RunEnded(Failure(kind="ended", reason="it is over"))
        self.asked.append(mode)
        taken = max(steps, round(seconds / self._seconds[mode]))
        given = builders.window(32 / self._seconds[mode], steps=taken, mode=mode)
        return replace(given, **self._changes)


def timed_threads(run: Stepping, **changes: Any) -> tuple[float | None, Ablation]:
    """What is said of one thread, by a program of two whose steps take 10 ms, and its ablation."""
    (model,) = builders.seen().models
    seen = builders.seen(**{"device": "cpu", "threads": 2, "models": (model,)} | changes)
    ablation = Ablation(seen=seen, warm=[], startup_seconds=1.0)
    for mode in (AS_IS, REPLAY_DEVICE):
        ablation.windows[mode] = [Stepping(run._seconds).window(1.0, mode=mode)]
    return _one_thread(ablation, cast("ProcessRun", run), 1.0, cores=2), ablation


def test_one_thread_is_timed_in_turns_with_those_of_the_program() -> None:
    run = Stepping({AS_IS: 0.02, REPLAY_DEVICE: 0.01, ONE_THREAD: 0.008})
    faster, ablation = timed_threads(run)
    assert faster == pytest.approx(1.25, rel=0.05)
    assert run.asked[:8] == [ONE_THREAD] * 2 + [REPLAY_DEVICE] * 4 + [ONE_THREAD] * 2
    assert len(ablation.windows[ONE_THREAD]) == 4 and len(ablation.windows[REPLAY_DEVICE]) == 5


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


def test_of_threads_that_others_kept_from_processors_nothing_is_said() -> None:
    run = Stepping(
        {AS_IS: 0.01, REPLAY_DEVICE: 0.01, ONE_THREAD: 0.001},
        delayed_seconds=9.0,
        others_seconds=9.0,
    )
    faster, ablation = timed_threads(run)
    assert faster is None and ONE_THREAD not in ablation.windows


def test_a_program_that_ends_meanwhile_says_nothing_of_one_thread() -> None:
    run = Stepping({AS_IS: 0.01, REPLAY_DEVICE: 0.01, ONE_THREAD: 0.01}, windows=9)
    faster, ablation = timed_threads(run)
    assert faster is None and ONE_THREAD not in ablation.windows
