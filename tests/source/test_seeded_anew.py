"""Random numbers that begin anew with the same seed for each epoch are found."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.seeded_anew import seeded_anew

TEXT = """\
import random
import numpy as np
import torch
from lightning import seed_everything


def everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train_epoch(loader, seed):
    ONCE
    for x, y in loader:
        STEP
        loss_of(net(x), y).backward()
        optimizer.step()


np.random.seed(1)
loader = DataLoader(dataset, generator=order)
for fold in range(5):
    torch.manual_seed(0)
    for epoch in range(9):
        EPOCH
        train_epoch(loader, 3 + args.seed)
        MORE
"""


def found(text: str = TEXT, **given: str) -> dict[str, str]:
    for name in ("ONCE", "STEP", "EPOCH", "MORE"):
        text = text.replace(name, given.get(name.lower(), "pass"))
    line = text.splitlines().index("        loss_of(net(x), y).backward()") + 1
    places = Places(backward=Place(path="/p/train.py", line=line))
    return seeded_anew(parsed({"/p/train.py": text}, places, "/p/train.py"))


@pytest.mark.parametrize(
    ("given", "streams"),
    [
        ({}, {}),
        ({"epoch": "np.random.seed(7)"}, {"numpy.random": "train.py:26"}),
        ({"epoch": "np.random.seed(epoch)"}, {}),
        ({"epoch": "random.seed(args.seed)"}, {"random": "train.py:26"}),
        ({"epoch": "step = 10 * epoch; random.seed(step)"}, {}),
        ({"once": "random.seed(seed)"}, {"random": "train.py:14"}),
        ({"once": "random.seed(seed + 1)"}, {"random": "train.py:14"}),
        ({"step": "random.seed(seed)"}, {}),  # in each step: another matter
        ({"epoch": "random.seed(self.at); self.at += 1"}, {}),
        ({"epoch": "random.seed(self.at)"}, {"random": "train.py:26"}),
        ({"epoch": "np.random.seed(seed=epoch)"}, {}),
        ({"epoch": "random.seed(); np.random.seed(None)"}, {}),  # from the system
        ({"epoch": "with torch.random.fork_rng(): torch.manual_seed(0)"}, {}),
        (
            {"epoch": "with torch.random.fork_rng(): np.random.seed(0)"},
            {"numpy.random": "train.py:26"},
        ),
        ({"once": "s = np.random.get_state(); flip(x); np.random.set_state(s)"}, {}),
        ({"once": "s = random.getstate(); random.seed(7); flip(x); random.setstate(s)"}, {}),
        ({"once": "random.seed(7); s = random.getstate()"}, {"random": "train.py:14"}),
        (
            {"epoch": "everything(3)"},
            {"random": "train.py:8", "numpy.random": "train.py:9", "torch": "train.py:10"},
        ),
        ({"epoch": "everything(3 + epoch)"}, {}),
        (
            {"epoch": "seed_everything(3)"},
            dict.fromkeys(("random", "numpy.random", "torch"), "train.py:26"),
        ),
        ({"epoch": "rng.seed(3)"}, {}),  # one of its own
        ({"epoch": "order.manual_seed(3)"}, {"loader": "train.py:26"}),
        ({"epoch": "order.manual_seed(epoch)"}, {}),
        ({"epoch": "noise.manual_seed(3)"}, {}),  # of no loader's
        ({"epoch": "noise.manual_seed(3); torch.randn(4, generator=noise)"}, {}),
        ({"epoch": "images = pipeline(16, generator=torch.Generator().manual_seed(3))"}, {}),
        ({"epoch": "order = torch.Generator().manual_seed(3)"}, {"loader": "train.py:26"}),
        (
            {"epoch": "loader = DataLoader(x, generator=torch.Generator().manual_seed(3))"},
            {"loader": "train.py:26"},
        ),
    ],
)
def test_seeds_that_are_the_same_in_each_epoch(
    given: dict[str, str], streams: dict[str, str]
) -> None:
    assert found(**given) == streams


@pytest.mark.parametrize("seeds", ["order.manual_seed(3)", "held.manual_seed(3)"])
@pytest.mark.parametrize("seen", [True, False])
def test_the_generator_of_another_loader_says_nothing_of_the_training(
    seeds: str, seen: bool
) -> None:
    other = "val_loader = DataLoader(\n    held_out,\n    generator=held,\n)\nfor fold"
    text = TEXT.replace("for fold", other).replace("EPOCH", seeds)
    lines = text.splitlines()
    line, backward = (
        next(number for number, at in enumerate(lines, 1) if each in at)
        for each in ("generator=order", ".backward()")
    )
    loader = Place(path="/p/train.py", line=line) if seen else None
    places = Places(loader=loader, backward=Place(path="/p/train.py", line=backward))
    anew = seeded_anew(parsed({"/p/train.py": text}, places, "/p/train.py"))
    assert set(anew) == ({"loader"} if "order" in seeds or not seen else set())


OTHER = "DataLoader(x, generator=torch.Generator().manual_seed(3))"
SAME = "loader = DataLoader(train, shuffle=True, generator=torch.Generator().manual_seed(3))"
ANEW = f"def anew():\n    {SAME}\n    return loader\n\n\nnp.random.seed(1)"


@pytest.mark.parametrize(
    ("built", "seen", "line"),
    [
        (f"held_out = {OTHER}", "loader = DataLoader(dataset, generator=order)", 0),
        (f"loader = {OTHER}", "loader = DataLoader(dataset, generator=order)", 26),
        (f"loader = {OTHER.replace('3', 'epoch')}", "loader = DataLoader(x)", 0),
        (SAME, SAME, 26),
        (f"held_out = {OTHER}", SAME, 0),
        ("pass", SAME, 0),
        ("loader = anew()", SAME, 22),
    ],
)
def test_a_loader_that_each_epoch_builds_is_another_s_or_that_of_the_training_anew(
    built: str, seen: str, line: int
) -> None:
    text = TEXT.replace("loader = DataLoader(dataset, generator=order)", seen)
    text = text.replace("np.random.seed(1)", ANEW) if "anew()" in built else text
    lines = text.splitlines()
    backward = lines.index("        loss_of(net(x), y).backward()") + 1
    places = Places(
        loader=Place(path="/p/train.py", line=lines.index(seen) + 1),
        backward=Place(path="/p/train.py", line=backward),
    )
    program = parsed({"/p/train.py": text.replace("EPOCH", built)}, places, "/p/train.py")
    assert seeded_anew(program) == ({"loader": f"train.py:{line}"} if line else {})


def test_those_that_a_caller_moves_on_are_not() -> None:
    text = "train_epoch(loader, 3 + epoch)"
    assert found(once="random.seed(seed)", more=f"{text}") == {}


CLASSES = """\
class Table(Dataset):
    def __init__(self):
        super().__init__()
        np.random.seed(7)


class Base:
    def __init__(self):
        random.seed(7)


class Meter(Base):
    def __init__(self):
        super().__init__()


class Logger:
    def __init__(self):
        super().__init__()


def train_epoch(loader, seed):
"""


@pytest.mark.parametrize(
    ("made", "streams"),
    [("Logger", set()), ("Meter", {"random"}), ("Base", {"random"}), ("Table", {"numpy.random"})],
)
def test_what_is_built_in_each_epoch_counts_with_its_bases(made: str, streams: set[str]) -> None:
    text = TEXT.replace("def train_epoch(loader, seed):\n", CLASSES)
    assert found(text, epoch=f"meter = {made}()").keys() == streams


WITH_TRAIN = """\
import torch


def latent(count, seed=None):
    if seed is not None:
        torch.manual_seed(seed)
    return torch.randn(count)


def drawn(seed=None):
    return latent(8, seed) if seed else latent(8)


def train(args):
    torch.manual_seed(args.seed)
    loader = DataLoader(dataset)
    for epoch in range(9):
        EPOCH
        for x, y in loader:
            loss_of(net(x), y).backward()
            optimizer.step()


train(args)
"""


@pytest.mark.parametrize(
    ("epoch", "line"),
    [
        ("net.train()", 0),  # which is no function `train`
        ("show(latent(8))", 0),
        ("show(latent(8, seed=args.seed))", 6),
        ("show(latent(8, epoch))", 0),
        ("show(drawn())", 0),
        ("show(drawn(seed=3))", 6),
    ],
)
def test_what_comes_once_or_is_given_no_seed_begins_none(epoch: str, line: int) -> None:
    text = WITH_TRAIN.replace("EPOCH", epoch)
    places = Places(backward=Place(path="/p/train.py", line=20))
    found = seeded_anew(parsed({"/p/train.py": text}, places, "/p/train.py"))
    assert found == ({"torch": f"train.py:{line}"} if line else {})


def test_what_a_trainer_seeds_for_each_epoch_is_found() -> None:
    text = """
class Trainer:
    def train(self):
        np.random.seed(0)
        for x, y in self.loader:
            loss_of(self.net(x), y).backward()

for epoch in range(9):
    trainer.train()
    net.train()
"""
    places = Places(backward=Place(path="/p/train.py", line=6))
    program = parsed({"/p/train.py": f"import numpy as np{text}"}, places, "/p/train.py")
    assert seeded_anew(program) == {"numpy.random": "train.py:4"}
