"""A cache of files that a first epoch fills is filled once, and what comes after it is measured."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from autotune.measurement.filling import (
    Filled,
    cache_of,
    doubts_of_cache,
    fill,
)
from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.workbench import Workbench
from autotune.workload.program.target import load_target
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, Window
from tests import builders
from tests.workload.programs import PLAIN

CACHED = PLAIN.replace("range(50)", "range(50000)").replace(
    "loader = DataLoader(dataset, batch_size=32",
    """
from pathlib import Path

class Cached(torch.utils.data.Dataset):
    def __len__(self):
        return 120
    def __getitem__(self, index):
        kept = Path("cache") / f"{index}.pt"
        if not kept.exists():
            print("made", flush=True)
            kept.parent.mkdir(exist_ok=True)
            torch.save(dataset[index], kept)
        return torch.load(kept)

loader = DataLoader(Cached(), batch_size=2""",
)


class FakeRun:
    """Makes files in its first windows: `made` of them in each, then none."""

    def __init__(self, *made: int, epochs: int = 1) -> None:
        self.made = list(made)
        self.epochs = epochs
        self.files: set[str] = set()
        self.merges = False

    def window(self, _seconds: float, *, mode: str = AS_IS, steps: int = 1) -> Window:
        count = self.made.pop(0) if self.made else 0
        if self.merges and not count:
            self.files.clear()
        self.files |= {f"/data/{len(self.files) + each}.npy" for each in range(count)}
        return Window(mode=mode, steps=steps, samples=1, seconds=0.1)

    def seen(self) -> Seen:
        facts = builders.seen()
        assert facts.loader is not None
        return replace(facts, loader=replace(facts.loader, epochs=self.epochs))


def filled(run: FakeRun, limit_seconds: float = 60.0) -> tuple[Filled | None, list[Window]]:
    windows = [run.window(0.3, steps=3)]
    found = fill(
        cast("ProcessRun", run),
        windows,
        made=lambda: run.files,
        limit_seconds=limit_seconds,
        told=lambda: None,
    )
    return found, windows


def test_a_run_goes_on_until_no_more_files_are_made() -> None:
    found, windows = filled(FakeRun(12, 12, 0, 6))
    assert found is not None and found.full
    assert len(found.files) == 30
    assert len(windows) == 1 + 1 + 1 + 1 + 2


def test_a_program_that_makes_few_files_has_no_cache() -> None:
    assert filled(FakeRun(7)) == (None, [FakeRun(7).window(0.3, steps=3)])
    run = FakeRun(8)
    windows = [run.window(0.3, steps=17)]
    made = cast("ProcessRun", run)
    assert not fill(made, windows, made=lambda: run.files, limit_seconds=1, told=lambda: None)


def test_what_makes_files_in_every_epoch_keeps_no_cache() -> None:
    assert filled(FakeRun(12, 12, 12, epochs=3))[0] is None
    assert filled(FakeRun(12, 12, 12, epochs=2))[0] is not None
    assert filled(FakeRun(12, epochs=3))[0] is not None


def test_parts_that_are_merged_and_taken_away_are_no_cache() -> None:
    run = FakeRun(20, 20)
    run.merges = True
    assert filled(run)[0] is None


def test_a_cache_that_is_not_full_in_time_is_said() -> None:
    found, _ = filled(FakeRun(12, 12, 12), limit_seconds=0.0)
    assert found is not None and not found.full
    (doubt,) = doubts_of_cache(found, "/")
    assert doubt.name == "first epoch"
    assert "*.npy in data" in doubt.evidence


@pytest.mark.parametrize("validations", [0, 1])
def test_what_a_validation_may_have_made_is_not_said_to_be_a_cache(validations: int) -> None:
    run = FakeRun(12, 12)
    windows = [replace(run.window(0.3, steps=3), validations=validations)]
    made = cast("ProcessRun", run)
    found = fill(made, windows, made=lambda: run.files, limit_seconds=60.0, told=lambda: None)
    (doubt,) = doubts_of_cache(found, "/")
    assert ("or as it validates (24 so far" in doubt.evidence) is bool(validations)
    assert "Where they are a cache" in doubt.evidence


def test_a_checkpoint_is_not_of_the_cache() -> None:
    samples = [f"/p/cache/{each}.pt" for each in range(5)]
    assert cache_of([*samples, "/p/last.pt", "/p/log.csv", "/p/log.txt"]) == tuple(samples)


def test_a_cache_may_be_divided_into_folders_by_its_names() -> None:
    samples = [f"/p/cache/{each:02x}/{each:02x}{7 * each:04x}.pt" for each in range(9)]
    deep = [f"/p/store/{each % 3:02x}/{each:02x}/{each:06x}.npy" for each in range(30)]
    checkpoints = [f"/p/runs/step-{each}/model.pt" for each in range(20)]
    others = ["/p/runs/last/best.pt", "/p/last.pt", "/p/one/a.json", "/p/two/b.json"]
    assert cache_of([*samples, *checkpoints, *others]) == tuple(samples)
    assert cache_of([*deep, *others]) == tuple(sorted(deep))


def test_a_folder_of_a_cache_may_be_named_by_a_digest() -> None:
    kept = [f"/p/of/{each * 7919:032x}/output.pkl".replace("/000", "/a0f") for each in range(9)]
    numbered = [f"/p/runs/2026112400000{each:03}/output.pkl" for each in range(9)]
    assert cache_of([*kept, *numbered, "/p/of/func_code.py"]) == tuple(sorted(kept))


@pytest.mark.usefixtures("lent_zygote")
def test_later_runs_find_the_cache_and_the_users_folder_has_none(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(CACHED)
    with Workbench(load_target(path)) as bench:
        run = bench.observe()
        windows = [run.window(0.0, steps=10)]
        found = bench.fill(run, windows, limit_seconds=60.0, told=lambda: None)
        assert found is not None and found.full
        assert sum(window.steps for window in windows) > 60
        run.kill()
        again = bench.start()
        again.window(0.0, steps=70)
        assert "made" not in again.output()
        again.kill()
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]
