"""What a loop may do with its batches so that they may come to it on the device already."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from autotune.source.edits import Place, PrefetchToDevice
from tests.source.programs import PATH, places_of, rewritten

AHEAD = PrefetchToDevice()
LOOP = """
import torch
from torch.autograd import Variable

def train(loader, device, use_cuda=False):
    for step, {batch} in enumerate(loader):
        {lines}
        loss = seen({used})
        loss.backward()
        optimizer.step()
"""
TAKEN = {
    "a tuple of copies": ("batch", "batch = tuple(t.to(device) for t in batch)", "batch"),
    "a list of copies": ("batch", "batch = [t.to(device) for t in batch]", "batch"),
    "copies by key": ("batch", "batch = {k: v.to(device) for k, v in batch.items()}", "batch"),
    "copies of each key": ("batch", "batch = {k: batch[k].to(device) for k in batch}", "batch"),
    "copies of tensors alone": (
        "batch",
        "batch = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}",
        "batch",
    ),
    "copies of what there is": (
        "batch",
        "batch = {k: v.to(device) for k, v in batch.items() if v is not None}",
        "batch",
    ),
    "copies in a loop": (
        "batch",
        "for k in batch:\n            batch[k] = batch[k].to(device)",
        "batch, batch['x'].numpy()",
    ),
    "copies in a loop over both": (
        "batch",
        (
            "for k, v in batch.items():\n            if torch.is_tensor(v):\n"
            "                batch[k] = v.to(device)"
        ),
        "batch",
    ),
    "copies of a detector's": (
        "(images, targets)",
        (
            "images = list(image.to(device) for image in images)\n"
            "        targets = [{k: v.to(device) for k, v in t.items()} for t in targets]"
        ),
        "images, targets",
    ),
    "rows": ("(x, y)", "x = x.reshape(-1, 2 * 2).to(device); y = y.to(device)", "x, y"),
    "rows by their number": (
        "(x, y)",
        "x, y = x.view(x.size(0), -1).float().to(device), y.long().to(device)",
        "x, y",
    ),
    "rows before": (
        "(x, y)",
        "x = x.view(-1, 4)\n        x, y = x.to(device), y.squeeze().to(device)",
        "x, y",
    ),
    "variables": (
        "(x, y)",
        "x, y = Variable(x), Variable(y)\n        x, y = x.to(device), y.to(device)",
        "x, y",
    ),
    "variables of copies": ("(x, y)", "x = Variable(x.to(device)); y = y.to(device)", "x, y"),
    "a part by its name": (
        "batch",
        (
            "y = batch.get('y').to(device)\n"
            "        batch = {k: v.to(device) for k, v in batch.items()}"
        ),
        "batch, y",
    ),
    "other formats": (
        "(x, y)",
        "n = y.numel(); x, y = x.type(torch.float64).to(device), y.bool().to(device)",
        "x, y, n",
    ),
}
KEPT = {
    "a tuple of other things": ("batch", "batch = tuple(f(t).to(device) for t in batch)"),
    "arrays": ("batch", "a = [t.numpy() for t in batch]; batch = batch.to(device)"),
    "arrays by key": (
        "batch",
        "a = {k: v.numpy() for k, v in batch.items()}; batch = batch.to(device)",
    ),
    "some of the copies": (
        "batch",
        (
            "for k in batch:\n            if k:\n                batch[k] = batch[k].to(device)\n"
            "        log(batch)"
        ),
    ),
    "another table": ("batch", "batch = {k: table[k].to(device) for k in batch}"),
    "rows as they are": ("x", "z = x.view(-1).to(device); w = x.view(-1)\n        log(w.numpy())"),
    "rows by numbers of the host": ("x", "x = x.view(x.sum().numpy(), -1); z = x.to(device)"),
    "rows to a list": ("x", "z = x.to(device); log(x.view(-1).tolist())"),
    "an attribute": ("x", "self.last = x; x = x.to(device)"),
    "an entry": ("x", "last[0] = x; x = x.to(device)"),
    "what is left of a test": ("x", "z = x.to(device) if x.is_pinned() else x"),
    "a type of the host": ("x", "x = x.type(torch.FloatTensor); z = x.to(device)"),
}


def program(batch: str, lines: str, used: str) -> str:
    return LOOP.format(batch=batch, lines=lines, used=used)


def at(text: str, sign: str) -> tuple[Place, ...]:
    lines = enumerate(text.splitlines(), 1)
    return tuple(Place(path=PATH, line=number) for number, line in lines if sign in line)


@pytest.mark.parametrize(("batch", "lines", "used"), TAKEN.values(), ids=TAKEN)
def test_batches_that_are_copied_may_be_so_before(batch: str, lines: str, used: str) -> None:
    text = program(batch, lines, used)
    places = replace(places_of(text), copies=at(text, ".to(device)"))
    outcome = rewritten(text, AHEAD, places=places)
    assert outcome.statuses == ["done"], outcome.reason
    assert "enumerate(CopiedAhead(loader, device)):" in outcome.text
    assert _seen(outcome.text, batch) == _seen(text, batch) != ""


def _seen(text: str, batch: str) -> str:
    """What the program `text` comes to see of two batches, on a CPU."""
    seen: list[Any] = []

    class Loss:
        def backward(self) -> None:
            pass

        step = backward

    def keep(*parts: Any) -> Loss:
        seen.append(str(parts))
        return Loss()

    names: dict[str, Any] = {"seen": keep, "optimizer": Loss()}
    exec(text, names)
    x, y = torch.arange(8.0).view(2, 4), torch.arange(2).view(2, 1)
    by_position = "for t in batch" in text
    given: dict[str, Any] = {
        "batch": [x, y] if by_position else {"x": x, "y": y},
        "(images, targets)": ([x], [{"y": y}]),
    }
    names["train"]([given.get(batch, (x, y))] * 2, "cpu")
    return "".join(seen)


@pytest.mark.parametrize(("batch", "lines"), KEPT.values(), ids=KEPT)
def test_batches_that_the_host_uses_stay_on_it(batch: str, lines: str) -> None:
    text = program(batch, lines, batch)
    places = replace(places_of(text), copies=at(text, ".to(device)"))
    outcome = rewritten(text, AHEAD, places=places)
    assert outcome.statuses == ["refused"], outcome.text
    assert outcome.text == text


BEHIND = """
import torch

def train(loader, other, device):
    for epoch in range(2):
        {above}
        for {batch} in loader:
            loss = seen(x.to(device), y.to(device))
            loss.backward()
            optimizer.step()
        {below}
    {end}
"""
LEFT = {
    "kept": ("pass", "outputs.append((epoch, x))", "pass"),
    "shown in the end": ("pass", "pass", "plt.imshow(x[0].permute(1, 2, 0))"),
    "given back": ("pass", "pass", "return x"),
    "in the else": ("pass", "else:\n            show(x)", "pass"),
    "in the next turn": ("if epoch: show(x)", "pass", "pass"),
    "in a function": ("def show(): plt.imshow(x[0])", "show()", "pass"),
    "perhaps another value": ("pass", "if epoch:\n            x = other[0]", "show(x)"),
    "another value too late": ("pass", "show(x)\n        x = other[0]", "pass"),
    "another value too early": ("x = other[0]", "show(x)", "pass"),
    "another value of one of them": ("pass", "x = other[0]", "x = 1\n    show(x, y)"),
    "another value before all turns": ("show(x)", "pass", "x = 1"),
    "made from it": ("pass", "x = show(x)", "pass"),
}
GONE = {
    "sizes": ("pass", "print(len(x), x.shape[0], x.size(0))", "show(x.to(device))"),
    "another loop": (
        "pass",
        "for x, y in other:\n            show(x)\n        show(x)",
        "x, y = other[0]\n    show(x, y)",
    ),
    "a loop before": (
        "for x, y in other:\n            show(x, y)\n        show(x)",
        "pass",
        "pass",
    ),
    "another value each turn": ("x = other[0]\n        show(x)", "x = 1", "show(x)"),
    "another value behind the loop": ("show(x)", "x = 1", "pass"),
    "variables of others": (
        "kept = [x for x in other if show(x)]",
        "kept = map(lambda x, y: show(x, y), other)",
        "def mean(x):\n        y = x.numpy()\n        return y",
    ),
}


@pytest.mark.parametrize(("above", "below", "end"), LEFT.values(), ids=LEFT)
def test_the_last_batch_may_be_used_behind_the_loop(above: str, below: str, end: str) -> None:
    text = BEHIND.format(batch="x, y", above=above, below=below, end=end)
    outcome = rewritten(text, AHEAD)
    assert outcome.statuses == ["refused"], outcome.text
    assert "on the host as well" in outcome.reason
    taken = text.replace(
        "            loss = ", "            x, y = x.to(device), y.to(device)\n            loss = "
    )
    assert rewritten(taken, AHEAD).statuses == ["done"]


@pytest.mark.parametrize(("above", "below", "end"), GONE.values(), ids=GONE)
def test_other_values_of_its_names_are_no_batch(above: str, below: str, end: str) -> None:
    text = BEHIND.format(batch="x, y", above=above, below=below, end=end)
    outcome = rewritten(text, AHEAD)
    assert outcome.statuses == ["done"], outcome.reason


def test_a_function_beside_the_loop_may_read_its_last_batch() -> None:
    text = """
import torch

def show(): plt.imshow({read})

for x, y in loader:
    loss = seen(x.to(device))
    loss.backward()
    optimizer.step()
show()
"""
    assert rewritten(text.format(read="x[0]"), AHEAD).statuses == ["refused"]
    assert rewritten(text.format(read="z[0]"), AHEAD).statuses == ["done"]


@pytest.mark.parametrize(
    ("test", "device"),
    [
        ("use_cuda", '"cuda" if use_cuda else "cpu"'),
        ("not use_cuda is None", '"cuda" if not use_cuda is None else "cpu"'),
        ("torch.cuda.is_available()", '"cuda" if torch.cuda.is_available() else "cpu"'),
        ("chance()", ""),
        ("step", ""),
        ("self.moved", ""),
    ],
)
def test_a_loop_that_copies_only_where_there_is_a_gpu_has_its_condition(
    test: str, device: str
) -> None:
    lines = f"self.moved = True\n        if {test}:\n            x, y = x.cuda(), y.cuda()"
    text = program("(x, y)", lines, "x, y")
    outcome = rewritten(text, AHEAD)
    assert outcome.statuses == (["done"] if device else ["refused"]), outcome.reason
    assert device == "" or f"CopiedAhead(loader, {device})" in outcome.text
    assert device or f"copies its batches goes by {test}" in outcome.reason


@pytest.mark.parametrize(
    ("loop", "wrapped"),
    [
        ("metric_logger.log_every(loader, 10, header)", "CopiedAhead(loader, device), 10, header"),
        ("DataLoader(data, 8)", "in enumerate(CopiedAhead(DataLoader(data, 8), device)):"),
    ],
)
def test_what_a_loop_goes_over_is_found_inside(loop: str, wrapped: str) -> None:
    text = program("x", "x = x.to(device)", "x").replace("(loader)", f"({loop})")
    outcome = rewritten(text, AHEAD)
    assert outcome.statuses == ["done"], outcome.reason
    assert wrapped in outcome.text
    assert rewritten(outcome.text, AHEAD).statuses == ["already"]
