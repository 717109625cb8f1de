"""A first epoch in which a dataset fills a cache in memory is gone through before a run counts."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from autotune.measurement import first_epoch
from autotune.measurement.ablated import Ablation
from autotune.measurement.ablation import _still_kept, ablate
from autotune.measurement.benchmark import pass_first_epoch
from autotune.measurement.first_epoch import FirstEpoch, doubts_of_memory, fill_memory, grown
from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.workbench import Workbench
from autotune.workload.conversation import Draw
from autotune.workload.live import Live
from autotune.workload.program.target import load_target
from autotune.workload.samples import drawing
from autotune.workload.samples.delivery import Delivery
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, Window
from tests import builders
from tests.workload.programs import PLAIN

CACHED = PLAIN.replace("range(50)", "range(50000)").replace(
    "loader = DataLoader(dataset, batch_size=32",
    """
import time
torch.set_num_threads(1)
class Cached(torch.utils.data.Dataset):
    def __init__(self):
        self.cache = {}
    def __len__(self):
        return 160
    def __getitem__(self, index):
        if index not in self.cache:
            time.sleep(0.02)
            self.cache[index] = dataset[index]
        return self.cache[index]

loader = DataLoader(Cached(), batch_size=2""",
)


class FakeRun:
    """Each window is of ten samples in a second, or of `later` of them once so many are `kept`."""

    def __init__(self, *, size: int, later: int, epochs: int = 1) -> None:
        self.size, self.later, self.epochs = size, later, epochs
        self.drawn = 0
        self.first_steps, self.first_seconds = 0, 0.0
        self.workers, self.persist = 0, False
        self.clock, self.asked_seconds = 0.0, 0.0

    def monotonic(self) -> float:
        return self.clock

    def kept(self) -> Mapping[str, int]:
        self.clock += self.asked_seconds
        return {"Photos.cache": min(self.drawn, self.size), "Photos.epoch": 1}

    def window(self, _seconds: float, *, mode: str = AS_IS, steps: int = 1) -> Window:
        count = 10 if self.drawn < self.size else self.later
        self.drawn += count
        self.clock += 1.0
        return Window(mode=mode, steps=steps, samples=count, seconds=1.0)

    def seen(self) -> Seen:
        facts = builders.seen()
        assert facts.loader is not None
        given = {"num_workers": self.workers, "persistent_workers": self.persist}
        return replace(facts, loader=replace(facts.loader, epochs=self.epochs, **given))


def filled(run: FakeRun, limit_seconds: float = 60.0) -> tuple[FirstEpoch | None, list[Window]]:
    before = run.kept()
    windows = [run.window(0.3, steps=3)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(first_epoch, "time", run)
        found = fill_memory(
            cast("ProcessRun", run),
            windows,
            before=before,
            kept=run.kept,
            limit_seconds=limit_seconds,
            told=lambda: None,
        )
    return found, windows


def test_a_run_goes_on_until_no_more_is_kept() -> None:
    found, windows = filled(FakeRun(size=40, later=60))
    assert found == FirstEpoch(names=("Photos.cache",), steps=12, seconds=4.0, speedup=6.0)
    assert len(windows) == 4 + 2
    (doubt,) = doubts_of_memory(found, ())
    assert doubt.name == "cache filled"
    assert "`Photos.cache`" in doubt.evidence and "after 4 s" in doubt.evidence


def test_what_makes_no_difference_is_not_waited_for_by_later_runs() -> None:
    assert filled(FakeRun(size=40, later=10))[0] is None


def test_a_first_epoch_that_is_too_long_is_not_waited_for() -> None:
    found, windows = filled(FakeRun(size=1000, later=30), limit_seconds=5.0)
    assert found is None and len(windows) == 6
    (doubt,) = doubts_of_memory(found, ("Photos.cache",))
    assert doubt.name == "cache filling"


class Redrawn(FakeRun):
    """Of `size` samples each window draws ten, with replacement: ever fewer are new."""

    def kept(self) -> Mapping[str, int]:
        super().kept()
        return {"Photos.cache": round(self.size * (1 - math.exp(-self.drawn / self.size)))}


def test_a_cache_that_still_grows_is_not_full() -> None:
    run = Redrawn(size=100, later=10)
    found, windows = filled(run, limit_seconds=20.0)
    assert found is None and len(windows) == 21
    assert run.kept()["Photos.cache"] > 85
    run = Redrawn(size=40, later=10)
    filled(run)
    assert run.kept()["Photos.cache"] == 40


def test_that_a_cache_was_not_full_while_it_was_timed_is_said() -> None:
    ablation = Ablation(seen=builders.seen(), warm=[], startup_seconds=0.0)
    ablation.caches = ("Photos.cache",)
    before = {"Photos.cache": 70, "Photos.log": 0}
    after = {"Photos.cache": 80, "Photos.log": 10}
    assert _still_kept(ablation, before, after, 100) == ("Photos.cache",)
    assert _still_kept(ablation, before, {"Photos.cache": 71}, 100) == ()


def test_what_is_asked_between_the_windows_counts_to_the_limit() -> None:
    run = FakeRun(size=1000, later=30)
    run.asked_seconds = 9.0
    found, windows = filled(run, limit_seconds=30.0)
    assert found is None and len(windows) == 4


def test_how_much_it_keeps_is_asked_without_reading_what_it_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset = [torch.ones(2), None]
    loader = SimpleNamespace(dataset=SimpleNamespace(slots=dataset), num_workers=0)
    live = SimpleNamespace(fed=SimpleNamespace(loader=lambda: loader, iterator=lambda: None))
    monkeypatch.setattr(drawing, "kept_by_loader", None)
    told = drawing.deliver(cast("Live", live), Draw(batches=0, seconds=0.0, only_lengths=True))
    assert isinstance(told, Delivery) and told.remembered == {"SimpleNamespace.slots": -1}


def test_what_is_kept_of_every_epoch_is_no_cache() -> None:
    found, windows = filled(FakeRun(size=1000, later=30, epochs=3))
    assert found is None and len(windows) == 2


def test_a_dataset_that_keeps_nothing_is_not_waited_for() -> None:
    assert len(filled(FakeRun(size=0, later=10))[1]) == 1


@pytest.mark.parametrize(
    ("workers", "persist", "windows"), [(0, False, 4), (2, False, 0), (2, True, 4)]
)
def test_later_runs_pass_it_unless_their_workers_lose_what_they_keep(
    workers: int, persist: bool, windows: int
) -> None:
    run = FakeRun(size=40, later=30)
    run.workers, run.persist = workers, persist
    run.first_steps, run.first_seconds = 12, 60.0
    taken: list[Window] = []
    pass_first_epoch(cast("ProcessRun", run), taken)
    assert len(taken) == windows


def test_settings_that_take_too_long_for_it_are_timed_as_they_are() -> None:
    run = FakeRun(size=40, later=30)
    run.first_steps, run.first_seconds = 1000, -1.0
    taken: list[Window] = []
    pass_first_epoch(cast("ProcessRun", run), taken)
    assert not taken


def test_what_grows_by_one_for_each_sample_is_a_cache_in_memory() -> None:
    before = {"Photos.cache": 10, "Photos.epochs": 1}
    assert grown(before, {"Photos.cache": 42, "Photos.epochs": 2}, 32) == ("Photos.cache",)
    assert grown(before, {"Photos.cache": 12, "Photos.epochs": 2}, 32) == ()
    assert grown({}, {"Photos.index": 1000}, 32) == ()
    (doubt,) = doubts_of_memory(None, ("Photos.cache",))
    assert doubt.name == "cache filling"
    assert "`Photos.cache`" in doubt.evidence


@pytest.mark.usefixtures("lent_zygote")
def test_the_profile_and_later_runs_are_of_later_epochs(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(CACHED)
    with Workbench(load_target(path)) as bench:
        ablation = ablate(
            bench.observe,
            seconds=0.5,
            cores=2,
            warm_seconds=0.3,
            remember=lambda run, windows, before, kept: bench.remember(
                run, windows, before=before, kept=kept, limit_seconds=60.0, told=lambda: None
            ),
        )
        assert ablation.first_epoch is not None and ablation.kept == ()
        assert ablation.first_epoch.names == ("Cached.cache",)
        assert ablation.first_epoch.steps > 60
        assert ablation.windows[AS_IS][0].samples_per_second > 200
        run = bench.start()
        taken: list[Window] = []
        pass_first_epoch(run, taken)
        assert sum(each.steps for each in taken) >= ablation.first_epoch.steps
        run.kill()
