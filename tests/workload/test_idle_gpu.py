"""A program that trains on the CPU beside a GPU: CUDA is not woken up for it."""

from pathlib import Path

import pytest
import torch

from autotune.workload.conversation import Tell
from autotune.workload.seams import copies
from tests.workload.programs import PLAIN, run, seen_of, steps, window_of

# SGD, for torch 2.6's AdamW asks in each step whether CUDA is there.
MOVED = PLAIN.replace(
    "for x, y in loader:", "for x, y in loader:\n        x = x.to('cpu').float()"
).replace("AdamW(", "SGD(")


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one, and whatever would make a context on it fails."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("is_available", "current_stream", "default_stream", "synchronize", "Event"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name, **__: pytest.fail(name))


def test_it_is_timed_by_the_host(tmp_path: Path) -> None:
    reports = run(MOVED, steps(10), Tell(), folder=tmp_path)
    window, seen = window_of(reports), seen_of(reports)
    assert 0 < sum(window.phases.values()) <= window.seconds
    assert set(window.phases) == {"data", "forward", "backward", "optimizer"}
    assert window.peak_bytes and window.allocator is None
    assert (seen.device, seen.device_uuid, seen.copies_to_device) == ("cpu", "", 0)


def test_a_part_of_a_gpu_is_not_counted_by_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-8f9a0c3e-6a4d-5b0e-9d61-0a4f2f3f7c55")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: pytest.fail("CUDA counts parts"))
    assert window_of(run(MOVED, steps(10), folder=tmp_path)).steps == 10


@pytest.mark.parametrize(
    ("args", "kwargs", "copies_to_gpu"),
    [
        (("cuda",), {}, True),
        ((0,), {}, True),
        ((torch.device("cuda", 1), torch.float16), {}, True),
        ((), {"device": "cuda", "dtype": torch.float16}, True),
        ((torch.float16,), {"device": "cuda"}, True),
        ((torch.float32,), {}, False),
        ((), {"dtype": torch.float32}, False),
        ((torch.zeros(1),), {}, False),
        ((), {"other": torch.zeros(1)}, False),
    ],
)
def test_only_what_names_a_device_may_be_a_copy(
    args: tuple[object, ...], kwargs: dict[str, object], copies_to_gpu: bool
) -> None:
    assert copies._names_a_device(args, kwargs) == copies_to_gpu
