"""What runs read from storage, and what is said where later ones find it in memory."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.readings.storage import doubts_of_storage, reads_notably, told_of_memory
from autotune.measurement.workbench import Workbench
from autotune.outputs import wording
from autotune.profiling.profile import FIRST_READ, FROM_MEMORY, FROM_STORAGE, Profile
from autotune.workload.program.target import load_target
from autotune.workload.system.processor import Processor
from autotune.workload.window import Window, as_one
from tests import builders

MIB = 1 << 20
SAMPLES, SAMPLE_BYTES = 512, 1 << 16

READS = f"""
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

class Parts(Dataset):
    def __len__(self): return {SAMPLES}
    def __getitem__(self, index):
        with Path(__file__).with_name("samples").open("rb") as file:
            file.seek(index * {SAMPLE_BYTES})
            part = bytearray(file.read({SAMPLE_BYTES}))
        return torch.frombuffer(part, dtype=torch.uint8)[:64].float()

model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
while True:
    for batch in DataLoader(Parts(), batch_size=8, num_workers=WORKERS):
        loss = model(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """A file that no page of is in memory."""
    path = tmp_path / "samples"
    with path.open("wb") as file:
        file.write(os.urandom(SAMPLES * SAMPLE_BYTES))
        os.fsync(file.fileno())
    drop(path)
    looks = Processor(lambda: 1)
    path.read_bytes()
    if not looks.spent()["read_bytes"]:
        pytest.skip("this file system is in memory, or does not say what is read from it")
    drop(path)
    return path


def drop(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def trained(run: ProcessRun) -> list[Window]:
    """Windows of a run from its second step on."""
    try:
        run.await_first_step()
        return [run.window(0.0, steps=12) for _ in range(4)]
    finally:
        run.kill()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.usefixtures("lent_zygote")
def test_the_first_run_reads_from_storage_and_the_next_one_does_not(
    samples: Path, workers: int
) -> None:
    path = samples.parent / "train.py"
    path.write_text(READS.replace("WORKERS", str(workers)))
    with Workbench(load_target(path)) as bench:
        cold, warm = as_one(trained(bench.observe())), as_one(trained(bench.start()))
        assert cold.read_bytes is not None
        assert warm.read_bytes is not None
        asked = SAMPLE_BYTES * cold.samples
        assert cold.read_bytes > 0.3 * asked  # some was read ahead before the first window
        assert warm.read_bytes < 0.1 * asked
        assert reads_notably([cold])
        assert not reads_notably([warm])


def read(megabytes: float | None, samples_per_second: float = 180.0) -> Window:
    """A window that has read so much in each second."""
    window = builders.window(samples_per_second)
    read_bytes = None if megabytes is None else round(megabytes * 1e6 * window.seconds)
    return replace(window, read_bytes=read_bytes)


def profile(megabytes: float | None) -> Profile:
    windows = (read(megabytes), read(megabytes))
    return builders.profile(
        windows=windows, doubts=doubts_of_storage(windows, warm=[], seen=builders.seen())
    )


@pytest.mark.parametrize("megabytes", [0.0, 0.9, None])
def test_a_profile_that_reads_next_to_nothing_is_not_in_doubt(megabytes: float | None) -> None:
    assert profile(megabytes).doubts == ()
    assert told_of_memory(profile(megabytes), [builders.measurement(180.0)]).doubts == ()


def test_a_profile_that_reads_from_storage_says_how_much() -> None:
    (doubt,) = profile(35.0).doubts
    assert doubt.name == FROM_STORAGE
    assert doubt.evidence.startswith("It read 35 MB/s from storage as it was profiled")


@pytest.mark.parametrize(
    ("batches", "last", "name"),
    [
        (36, 0.5, FIRST_READ),
        (36, 35.0, FROM_STORAGE),
        (37, 0.5, FROM_STORAGE),  # what an earlier search has read, perhaps
        (None, 0.5, FROM_STORAGE),
        (36, None, None),
    ],
)
def test_data_that_were_seen_to_stay_in_memory_are_slow_in_the_first_epoch_alone(
    batches: int | None, last: float | None, name: str | None
) -> None:
    loader = builders.seen().loader
    assert loader is not None
    seen = builders.seen(loader=replace(loader, length=batches, dataset_length=None))
    cold = [read(35.0), read(35.0)]  # and each of 12 batches

    doubts = doubts_of_storage([*cold, read(last)], warm=[read(35.0)], seen=seen)

    assert [doubt.name for doubt in doubts] == ([name] if name else [])
    said = wording.outside(builders.profile(doubts=doubts))
    assert ("the first epoch may be slower" in said) is (name == FIRST_READ)


@pytest.mark.parametrize(
    ("later", "name"),
    [
        ([read(0.0, 900.0)], FROM_MEMORY),
        ([read(60.0, 900.0)], FROM_MEMORY),  # five times as fast, a third for each sample
        ([read(30.0)], FROM_STORAGE),
        ([read(0.0), read(None)], FROM_STORAGE),
        ([], FROM_STORAGE),
    ],
    ids=["in memory", "mostly", "as before", "unknown", "of an earlier search"],
)
def test_what_was_timed_from_memory_is_said(later: list[Window], name: str) -> None:
    cold = profile(35.0)
    outcomes = [
        builders.measurement(180.0, windows=cold.windows),
        Failure(kind="hung", reason=""),
        builders.measurement(180.0, windows=tuple(later)),
    ]

    told = told_of_memory(cold, outcomes)

    (doubt,) = told.doubts
    assert doubt.name == name
    in_memory = name == FROM_MEMORY
    said = "read 35 MB/s from storage, and of the runs that"
    assert (said in wording.outside(told)) is in_memory
    assert ("what settings gain was not measured" in wording.outside(told)) is in_memory


def test_windows_together_have_read_what_each_has_unless_that_is_unknown() -> None:
    assert as_one([read(1.0), replace(read(1.0), read_bytes=MIB)]).read_bytes is not None
    assert as_one([read(1.0), read(None)]).read_bytes is None
