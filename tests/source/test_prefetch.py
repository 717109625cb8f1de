"""`PrefetchToDevice`: the loop is given its batches as copied to the device, one of them ahead."""

from collections import OrderedDict, UserDict
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from autotune.source.edits import Place, PrefetchToDevice
from autotune.source.rewrites.prefetch import _CLASS
from tests.source.programs import PATH, check, places_of, rewritten, source
from tests.workload.test_ahead import Streams

AHEAD = PrefetchToDevice()
CLASS = _CLASS.strip().replace("\n", "\n        ").replace("        \n", "\n")


def test_the_loop_goes_over_the_copied_batches() -> None:
    check(
        """
        import torch

        device = "cuda"
        for step, (x, y) in enumerate(tqdm(loader), 1):  # all of them
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
        f"""
        import torch


        {CLASS}


        device = "cuda"
        for step, (x, y) in enumerate(tqdm(CopiedAhead(loader, device)), 1):  # all of them
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
        AHEAD,
    )


LOOP = """
import torch as t

def train(loader):
    for x in loader:
        x = {copy}
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("copy", "device"),
    [
        ("x.cuda()", '"cuda"'),
        ("x.cuda(non_blocking=True)", '"cuda"'),
        ("x.cuda(rank)", "rank"),
        ("x.cuda(device=rank)", "rank"),
        ("x.to(self.device)", "self.device"),
        ("x.to(device='cuda:1', dtype=t.half)", "'cuda:1'"),
        ("x.to(t.device('cuda'))", "t.device('cuda')"),
        ("x.to(f'cuda:{rank}')", "f'cuda:{rank}'"),
        ("x.to(t.device(f'cuda:{args.gpu}'))", "t.device(f'cuda:{args.gpu}')"),
        ("x.to(config['device'])", "config['device']"),
    ],
)
def test_the_device_is_the_one_that_the_loop_copies_to(copy: str, device: str) -> None:
    text = LOOP.format(copy=copy)
    places = replace(places_of(text), copies=(Place(path=PATH, line=6),))
    outcome = rewritten(text, AHEAD, places=places)
    assert outcome.statuses == ["done"], outcome.reason
    assert f"    for x in CopiedAhead(loader, {device}):\n" in outcome.text
    assert "t.cuda.Stream(" in outcome.text and "torch.cuda" not in outcome.text


def test_a_loader_that_is_wrapped_under_its_own_name_is_taken_inside() -> None:
    text = """
import torch

def train(loader):
    loader = tqdm(loader)
    for x in loader:
        x = x.to(device)
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
"""
    assert "    loader = tqdm(CopiedAhead(loader, device))\n" in rewritten(text, AHEAD).text


def test_the_number_of_a_batch_is_no_part_of_it() -> None:
    text = LOOP.format(copy="x.cuda()").replace(
        "    for x in loader:", "    bar = tqdm(enumerate(loader))\n    for i, x in bar:"
    )
    outcome = rewritten(text.replace("optimizer.step()", "log(i)"), AHEAD)
    assert outcome.statuses == ["done"], outcome.reason


@pytest.mark.parametrize(
    ("unpacked", "used", "kept"),
    [
        ("x, y = data", "", ""),
        ("x = data[0]\n        y = data[1]", "", ""),
        ("x, y = data['x'], data['y']", "len(data)", ""),
        ("x, y = data", "y = y.to(device)\n        y.numpy()", ""),
        ("x, y = data", "y.numpy()", "y"),
        ("x, y = data", "y.numpy()\n        y = y.to(device)", "y"),
        ("x, (y, z) = data", "record(z)", "z"),
        ("x, y = data", "record(data)", "data"),
    ],
)
def test_what_a_batch_is_unpacked_into_is_copied_too(unpacked: str, used: str, kept: str) -> None:
    text = LOOP.format(copy="x.to(device)").replace("for x in", "for data in")
    text = text.replace("        x =", f"        {unpacked}\n        {used}\n        x =")
    outcome = rewritten(text, AHEAD)
    assert outcome.statuses == (["refused"] if kept else ["done"]), outcome.reason
    assert kept == "" or f"may use {kept} on the host" in outcome.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LOOP.format(copy="x.to(pick(x))"), "copies no batch to a device that it names"),
        (LOOP.format(copy="move(x)"), "copies no batch to a device that it names"),
        (LOOP.format(copy="x.to(other=device)"), "copies no batch to a device that it names"),
        (
            LOOP.format(copy="x.to(device)").replace("  x = ", "  device = pick()\n        x = "),
            "it cannot be told before the loop which device it copies to (device)",
        ),
        (
            LOOP.format(copy="x.to(device)").replace(
                "for x in loader", "loop = tqdm(loader)\n    device = 'cuda'\n    for x in loop"
            ),
            "it cannot be told before the loop which device it copies to (device)",
        ),
        (LOOP.format(copy="x.to(device)").replace("in loader:", "in zip(a, b):"), "goes over"),
        (
            LOOP.format(copy="x.to(device)").replace(
                "x = x.to(device)", "z = x.to(device); x.numpy()"
            ),
            "may use x on the host",
        ),
        ("while True:\n    x = x.to(device)\n    loss.backward()\n", "for loop"),
        (
            LOOP.format(copy="x.to(device) if args.cuda else x"),
            "whether the loop copies its batches goes by args.cuda",
        ),
        (LOOP.format(copy="x.to(device)") + "CopiedAhead = 1\n", "something else"),
    ],
)
def test_another_form_is_refused_with_what_to_do(text: str, reason: str) -> None:
    outcome = rewritten(source(text), AHEAD)
    assert outcome.statuses == ["refused"]
    assert reason in outcome.reason
    assert "torch.cuda.Stream()" in outcome.hand_step


def made(loader: Any, device: str) -> Any:
    names: dict[str, Any] = {"torch": torch}
    exec(_CLASS, names)
    return names["CopiedAhead"](loader, device)


def test_the_class_that_is_written_gives_every_batch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams()
    streams.install(monkeypatch)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_, **__: tensor.clone())
    loader = [{"x": [torch.full((1,), number)], "name": f"{number}"} for number in range(3)]
    copied = made(loader, "cuda")
    assert len(copied) == 3
    for _ in range(2):
        assert [(int(batch["x"][0]), batch["name"]) for batch in copied] == [
            (0, "0"),
            (1, "1"),
            (2, "2"),
        ]
    assert streams.log[:2] == ["training waits for 0", "0 is used on training"]
    assert list(made([], "cuda")) == []


class Pair(NamedTuple):
    x: torch.Tensor
    name: str


class Padded(UserDict[str, Any]):
    """As transformers' BatchEncoding is."""


def test_the_class_that_is_written_opens_what_trials_open(monkeypatch: pytest.MonkeyPatch) -> None:
    Streams().install(monkeypatch)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_, **__: tensor + 1)
    packed = pack_sequence([torch.zeros(2)])
    loader = [Pair(torch.zeros(1), "a"), Padded(x=torch.zeros(1)), OrderedDict(x=torch.zeros(1))]
    pair, padded, ordered, whole = made([*loader, packed], "cuda")
    assert type(pair) is Pair and pair == Pair(torch.ones(1), "a")
    assert type(padded) is Padded and padded["x"] == 1
    assert type(ordered) is OrderedDict and ordered["x"] == 1
    assert loader[1]["x"] == 0 and whole is packed  # type: ignore[call-overload]


def test_without_a_gpu_the_class_hands_the_loader_on() -> None:
    loader = [torch.zeros(2)]
    assert list(made(loader, "cpu")) == loader
