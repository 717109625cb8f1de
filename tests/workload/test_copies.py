"""Copies to the device, with a stand-in for it: which of them are of a step."""

import linecache
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autotune.workload.live import Live
from autotune.workload.loading.copied import Copied
from autotune.workload.seams import copies
from autotune.workload.setup import Setup
from autotune.workload.steps.beat import Steps
from autotune.workload.steps.clock import HostClock


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A run after its first step."""
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 1, raising=False)
    for name in ("_cuda_getCurrentStream", "_cuda_getDefaultStream"):
        monkeypatch.setattr(torch._C, name, lambda device: (0, device, 1), raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    live = Live(setup=Setup(non_blocking=True))
    live.clock = HostClock()
    pace: Any = SimpleNamespace(steps=1, away=False)
    live.pace = pace
    copies.install(live)
    yield live
    live.unpatch()


@pytest.mark.parametrize("away", [False, True])
def test_a_copy_in_a_validation_is_none_of_the_step_s_time(live: Live, away: bool) -> None:
    live.pace.away = away  # type: ignore[misc]
    torch.zeros(1).to(torch.device("cpu"))
    assert ("copy" in live.clock.drain()) == (not away)


def test_a_copy_on_another_stream_is_none_of_the_step_s_time(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch._C, "_cuda_getCurrentStream", lambda device: (35, device, 1))
    torch.zeros(1).to(torch.device("cpu"))
    assert "copy" not in live.clock.drain()
    assert live.copied.aside


@pytest.mark.parametrize("away", [False, True])
def test_copies_are_non_blocking_wherever_the_program_is(
    live: Live, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    live.unpatch()
    asked: list[dict[str, Any]] = []

    def to(self: torch.Tensor, *_: Any, **kwargs: Any) -> torch.Tensor:
        asked.append(kwargs)
        return self

    monkeypatch.setattr(torch.Tensor, "to", to)
    copies.install(live)
    live.pace.away = away  # type: ignore[misc]
    torch.zeros(1).to(torch.device("cpu"))
    assert asked == [{"non_blocking": True}]


@pytest.mark.parametrize(
    ("same", "pinned", "again"),
    [(True, True, True), (False, True, False), (True, False, False)],  # not locked: copies wait
)
def test_locked_memory_that_is_copied_again_is_the_program_s_own(
    monkeypatch: pytest.MonkeyPatch, same: bool, pinned: bool, again: bool
) -> None:
    copied, buffer = Copied(), torch.zeros(8)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: pinned)
    for step, rows in enumerate((8, 3)):
        tensor = buffer[:rows] if same else torch.zeros(rows)
        copied.note(tensor, step)
    assert copied.again is again


@pytest.mark.parametrize(("rows", "again"), [(4, False), (5, True)])
def test_parts_of_a_dataset_in_memory_are_no_buffer(
    monkeypatch: pytest.MonkeyPatch, rows: int, again: bool
) -> None:
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: True)
    copied, dataset = Copied(), torch.zeros(16, 2)
    for step in range(3):
        copied.note(dataset[4 * step :][:rows], step)
    assert copied.again is again


def test_a_sparse_tensor_is_copied_as_others_are() -> None:
    copied = Copied()
    copied.note(torch.eye(3).to_sparse(), 0)
    assert copied.places


@pytest.fixture
def on_device(live: Live, monkeypatch: pytest.MonkeyPatch) -> Live:
    """A run before its first step, whose copies all arrive on a device."""
    live.unpatch()
    arrived = SimpleNamespace(is_cuda=True)
    monkeypatch.setattr(torch.Tensor, "to", lambda *_, **__: arrived)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: True)
    copies.install(live)
    live.pace = Steps(after=99, then=lambda _: None)
    return live


@pytest.mark.parametrize("filled_again", [True, False])
def test_buffers_that_are_filled_again_for_each_step_are_seen(
    on_device: Live, filled_again: bool
) -> None:
    x, y, device = torch.zeros(8), torch.zeros(8), torch.device("cuda")
    x.to(device)  # a model, before the first step
    for _ in range(5):
        if not filled_again:
            x, y = torch.zeros(8), torch.zeros(8)
        _ = x.to(device), y.to(device)
        on_device.end_step()
    assert on_device.copied.again is filled_again
    (place,) = on_device.copied.places
    assert linecache.getline(place.path, place.line).strip() == "_ = x.to(device), y.to(device)"


@pytest.mark.parametrize(
    ("rows", "forward", "named"),
    [
        ((1 << 16, 8), False, 2),  # a batch and its labels
        ((1 << 16, 8), True, 1),  # a batch, and numbers made in the forward pass
        ((8, 8), False, 0),
    ],
)
def test_lines_that_copy_batches_are_told_from_those_that_copy_a_few_numbers(
    on_device: Live, rows: tuple[int, int], forward: bool, named: int
) -> None:
    device = torch.device("cuda")
    for _ in range(3):
        on_device.end_step()
        on_device.forward_begun = False
        torch.zeros(rows[0]).to(device)
        on_device.forward_begun = forward
        torch.zeros(rows[1]).to(device)
    assert (len(on_device.copied.batches), len(on_device.copied.places)) == (named, 2)


def test_two_parts_of_one_batch_are_no_buffer_that_is_filled_again(on_device: Live) -> None:
    device = torch.device("cuda")
    for _ in range(5):
        batch = torch.zeros(4, 9)
        _ = batch[:, :-1].to(device), batch[:, 1:].to(device)
        on_device.end_step()
    assert not on_device.copied.again


@pytest.mark.parametrize(
    ("args", "kwargs", "counted"),
    [
        ((torch.float32, True), {}, 1),
        ((torch.float32, False, True), {}, 0),  # another flag says that it is to be a copy
        ((), {"non_blocking": True}, 1),
        ((), {}, 0),
    ],
)
def test_a_copy_that_is_not_to_block_is_counted_however_that_is_said(
    on_device: Live, args: tuple[Any, ...], kwargs: dict[str, Any], counted: int
) -> None:
    on_device.setup = Setup()
    on_device.end_step()
    torch.zeros(8).to(torch.device("cuda"), *args, **kwargs)
    assert (on_device.copied.count, on_device.copied.unblocked) == (1, counted)
    assert on_device.copied.non_blocking == counted


@pytest.mark.parametrize("in_backward", [False, True])
def test_a_copy_of_another_thread_is_none_of_the_step_s(live: Live, in_backward: bool) -> None:
    live.in_backward = in_backward  # by a thread of autograd's, then
    filling = threading.Thread(target=lambda: torch.zeros(1).to(torch.device("cpu")))
    filling.start()
    filling.join()
    assert "copy" not in live.clock.drain()
    assert (live.copied.count, live.copied.aside) == (0, not in_backward)


@pytest.mark.parametrize("batch", [True, False])
def test_a_few_numbers_that_are_waited_for_do_not_make_batches_wait(
    on_device: Live, batch: bool
) -> None:
    on_device.setup, device = Setup(), torch.device("cuda")
    for _ in range(4):
        on_device.end_step()
        on_device.forward_begun = False
        torch.zeros(1 << 16).to(device, non_blocking=batch)
        on_device.forward_begun = True
        torch.zeros(1).to(device, non_blocking=not batch)
    assert on_device.copied.non_blocking is batch
