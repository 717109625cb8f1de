"""A program is timed with its costs taken away, also one that ends before that is done."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from autotune.measurement import benchmark
from autotune.measurement.ablated import Ablation
from autotune.measurement.ablation import _begin, _count_epochs, _note_end, ablate
from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.profiling.course import doubts_of_stopping
from autotune.workload.window import AS_IS, DRAIN, ONE_BLAS_THREAD, ONE_THREAD, REPLAY_DEVICE
from tests import builders
from tests.measurement.conftest import Start
from tests.workload.programs import PLAIN


def test_a_program_is_timed_in_every_mode(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(50000)")
    ablation = ablate(lambda: start(text), seconds=1.0, cores=2, warm_seconds=1.0)
    assert set(ablation.windows) - {ONE_BLAS_THREAD, ONE_THREAD} == {AS_IS, REPLAY_DEVICE, DRAIN}
    assert not ablation.ended


@pytest.fixture
def _never_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is soon over is so while it warms up, however slow the machine is."""
    monkeypatch.setattr(benchmark, "stable", lambda *_, **__: False)


@pytest.mark.usefixtures("_never_warm")
def test_a_program_that_ends_at_once_is_started_again_for_what_is_missing(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(3)")
    ablation = ablate(lambda: start(text), seconds=1.0, cores=2, warm_seconds=60.0)
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
    assert set(ablation.windows) - {ONE_BLAS_THREAD} == {AS_IS, DRAIN}
    assert "the same batch twice" in ablation.reasons[REPLAY_DEVICE]
    assert DRAIN not in ablation.reasons


@pytest.mark.usefixtures("_never_warm")
def test_of_a_program_that_ends_while_it_warms_up_nothing_counts_twice(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(3)")  # seven steps an epoch
    ablation = _begin(start(text), warm_seconds=60.0)
    assert ablation.ended and not ablation.warm
    assert sum(window.steps for window in ablation.windows[AS_IS]) == 3 * 7 - 1  # but the first


@pytest.mark.parametrize(
    ("kind", "mode", "told"), [("hung", AS_IS, 1), ("hung", DRAIN, 0), ("ended", AS_IS, 0)]
)
def test_a_program_whose_steps_stop_as_it_is_is_told(kind: str, mode: str, told: int) -> None:
    ablation = Ablation(seen=builders.seen(), warm=[], startup_seconds=1.0)
    reason = "no sign of its next step within 81 s"
    _note_end(ablation, RunEnded(Failure(kind=kind, reason=reason)), mode)
    found = doubts_of_stopping(ablation.stopped)
    assert len(found) == told and all(reason in each.evidence for each in found)


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


def test_epochs_that_begin_while_it_is_timed_count() -> None:
    own = builders.seen().loader
    assert own is not None
    first, later = (replace(own, epochs=epochs) for epochs in (1, 3))
    ablation = Ablation(seen=builders.seen(loader=first), warm=[], startup_seconds=0.0)
    now = builders.seen(loader=replace(later, changing=True, num_workers=7))
    _count_epochs(ablation, cast("ProcessRun", SimpleNamespace(seen=lambda: now)))
    assert ablation.seen.loader == replace(first, epochs=3, changing=True)
