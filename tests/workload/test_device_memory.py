"""What torch's allocator of a GPU says of itself, with its answers in the place of a GPU."""

from typing import Any

import pytest
import torch

from autotune.workload.system.memory import allocator, peak_bytes
from autotune.workload.window import Allocator

GPU = torch.device("cuda", 0)
# By the names that `torch.cuda.memory_stats` documents.
SIZES = ("allocated_bytes", "reserved_bytes", "inactive_split_bytes")
COUNTS = ("num_alloc_retries", "num_ooms")
SAID = {
    "allocated_bytes.all.current": 3,
    "allocated_bytes.all.peak": 5,
    "reserved_bytes.all.current": 8,
    "reserved_bytes.all.peak": 9,
    "inactive_split_bytes.all.current": 2,
    "num_alloc_retries": 1,
    "num_ooms": 4,
}


def said(monkeypatch: pytest.MonkeyPatch, stats: dict[str, int] | Exception) -> Any:
    """The peak and the state of an allocator that says so much."""

    def answer(_: torch.device) -> dict[str, int]:
        if isinstance(stats, Exception):
            raise stats
        return stats

    def most(device: torch.device) -> int:
        return answer(device).get("allocated_bytes.all.peak", 0)

    monkeypatch.setattr(torch.cuda, "memory_stats", answer)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", most)
    return peak_bytes(GPU), allocator(GPU)


def test_the_names_are_those_that_torch_documents() -> None:
    documented = str(torch.cuda.memory_stats.__doc__)
    assert all(f'"{name}.{{all,' in documented for name in SIZES)
    assert all(f'"{name}"' in documented for name in COUNTS)
    assert {name.partition(".")[0] for name in SAID} == {*SIZES, *COUNTS}


def test_what_it_says_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Allocator(
        reserved_peak_bytes=9,
        allocated_peak_bytes=5,
        reserved_bytes=8,
        allocated_bytes=3,
        inactive_split_bytes=2,
        retries=1,
        out_of_memories=4,
    )
    assert said(monkeypatch, SAID) == (5, state)


@pytest.mark.parametrize(
    "stats",
    [
        dict.fromkeys(SAID, 0),  # PYTORCH_NO_CUDA_MEMORY_CACHING=1
        {},
        RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats"),
    ],
)
def test_what_it_does_not_count_is_not_known(
    stats: dict[str, int] | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(monkeypatch, stats) == (None, None)
