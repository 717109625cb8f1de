"""Batches that are copied one ahead; streams and events are stand-ins, since they need a device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autotune.workload.conversation import Tell
from autotune.workload.live import Live
from autotune.workload.loading.ahead import CopiedAhead, _side
from autotune.workload.seams import loader
from autotune.workload.setup import Setup
from autotune.workload.steps.open_window import Edges
from tests.workload.programs import PLAIN, run, steps, window_of


class Streams:
    """Stands in for torch.cuda's; what happens on which stream is written down."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.on = "training"
        self.copies = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "Stream", lambda _: Stream("side", self))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: Stream(self.on, self))
        monkeypatch.setattr(torch.cuda, "stream", self.switched)
        monkeypatch.setattr(
            torch.Tensor,
            "record_stream",
            lambda tensor, stream: self.log.append(f"{int(tensor[0])} is used on {stream.name}"),
        )

    @contextmanager
    def switched(self, stream: "Stream") -> Iterator[None]:
        before, self.on = self.on, stream.name
        yield
        self.on = before


class Stream:
    def __init__(self, name: str, streams: Streams) -> None:
        self.name, self._streams = name, streams

    def record_event(self) -> int:
        assert self._streams.on == self.name == "side"
        self._streams.copies += 1
        return self._streams.copies - 1

    def wait_event(self, event: int) -> None:
        self._streams.log.append(f"{self.name} waits for {event}")


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[Streams]:
    made = Streams()
    made.install(monkeypatch)
    _side.cache_clear()
    yield made
    _side.cache_clear()


def drawing(count: int, streams: Streams) -> Callable[[], Any]:
    numbers = iter(range(count))

    def draw() -> Any:
        number = next(numbers)
        streams.log.append(f"{number} is drawn")
        return {"x": torch.full((2,), number), "name": f"{number}"}

    return draw


def test_the_next_batch_is_on_its_way_before_one_is_given(streams: Streams) -> None:
    ahead, draw = CopiedAhead(torch.device("cpu")), drawing(3, streams)
    given = [ahead.next(draw) for _ in range(3)]
    assert [(int(batch["x"][0]), batch["name"]) for batch in given] == [
        (0, "0"),
        (1, "1"),
        (2, "2"),
    ]
    assert streams.log == [
        "0 is drawn",
        "1 is drawn",
        "training waits for 0",
        "0 is used on training",
        "2 is drawn",
        "training waits for 1",
        "1 is used on training",
        "training waits for 2",
        "2 is used on training",
    ]
    for _ in range(2):
        with pytest.raises(StopIteration):
            ahead.next(draw)


def test_all_that_a_source_gives_is_handed_on(streams: Streams) -> None:
    source = iter([[torch.full((1,), number)] for number in range(4)])
    given = CopiedAhead(torch.device("cpu")).over(source)
    assert [int(parts[0]) for parts in given] == [0, 1, 2, 3]
    assert streams.log[-1] == "3 is used on training"


def test_a_loader_without_batches_has_none_ahead(streams: Streams) -> None:
    with pytest.raises(StopIteration):
        CopiedAhead(torch.device("cpu")).next(drawing(0, streams))
    assert streams.log == []


def test_a_run_is_given_the_same_batches_in_every_epoch(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def losses(setup: Setup) -> tuple[float, ...]:
        return window_of(
            run(PLAIN, steps(1), Tell(), steps(30), setup=setup, folder=tmp_path)
        ).losses

    before = losses(Setup())
    made: list[CopiedAhead] = []

    def copied_ahead(_: torch.device) -> CopiedAhead:
        made.append(CopiedAhead(torch.device("cpu")))
        return made[-1]

    monkeypatch.setattr(loader, "CopiedAhead", copied_ahead)
    monkeypatch.setattr(Live, "device", lambda _: torch.device("cuda"))
    told = SimpleNamespace(name="stand-in", total_memory=1 << 30, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: told)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: None)
    monkeypatch.setattr(Edges, "leads_in", lambda _: False)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda _, __: None)
    assert losses(Setup(prefetch_to_device=True)) == before
    assert len(made) == 5  # one for each epoch of seven steps


def test_each_epoch_copies_on_the_same_stream(streams: Streams) -> None:
    device = torch.device("cpu")
    assert CopiedAhead(device)._side is CopiedAhead(device)._side
