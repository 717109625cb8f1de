"""bfloat16 where a module keeps of its forward pass what NumPy is given later."""

from dataclasses import replace

import pytest

from autotune.source.edits import Autocast, OutputPlace, Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.kept_inside import kept_attributes
from autotune.source.rewrite import Rewrite, rewrite
from tests.source.programs import PATH, places_of, source

BF16 = Autocast(device_type="cpu", dtype="bfloat16")
ON_A_GPU = replace(BF16, device_type="cuda")
FP16 = Autocast(device_type="cuda", dtype="float16")
NET = "/project/net.py"

TRAINING = """
import numpy as np
import torch
from matplotlib import pyplot as plt
from net import Block

def save(model, epoch):
    {read}

def shown(maps):
    plt.imshow(maps)

for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    save(model, epoch)
"""
BLOCK = """
import torch

class Block(torch.nn.Module):
    def forward(self, x):
        scores = self.first(x) @ self.second(x)
        found = scores.softmax(-1)
        self.keep(found, scores)
        return self.last(x)

    def keep(self, found, scores):
        {kept}

    def reset(self):
        self.other = torch.zeros(3)

    @property
    def as_list(self):
        return [self.maps]

    def gathered(self):
        for each in self.maps:
            yield each
"""
KEPT, READ = "self.maps = scores.detach()", "np.save('m', model.maps[0].numpy())"
NORM = """class Norm:
        def __init__(self, data): self.maps = data.mean(0)
        def __call__(self, x): return np.clip(x, 0, self.maps)
"""


def edited(kept: str = KEPT, read: str = READ, edit: Autocast = BF16) -> Rewrite:
    text, block = source(TRAINING.format(read=read)), source(BLOCK.format(kept=kept))
    line = next(n for n, at in enumerate(text.splitlines(), 1) if "criterion(model(x)" in at)
    called = OutputPlace(path=PATH, line=line, callee="model", tensors=False)
    places = replace(
        places_of(text), forward=Place(path=PATH, line=line), outputs=(called,), zero_grad=None
    )
    return rewrite({PATH: text, NET: block}, [("precision", edit)], places)


def is_refused(kept: str = KEPT, read: str = READ, edit: Autocast = BF16) -> bool:
    (outcome,) = edited(kept, read, edit).outcomes
    assert outcome.status == "done" or "to NumPy, or to what" in outcome.reason, outcome
    return outcome.status == "refused"


def test_it_is_said_where_and_what_to_write_there() -> None:
    done = edited()
    (outcome,) = done.outcomes
    at = "train.py:7"
    assert outcome.reason == (
        f"what a module keeps of its forward pass may be given at {at} to NumPy, or to what takes "
        "its arrays, without .float(): NumPy has no bfloat16"
    )
    assert outcome.hand_step.startswith(f"{at}: .float() before that; with torch.autocast(")
    assert "autocast" not in done.sources[PATH]


@pytest.mark.parametrize(
    "read",
    [
        "maps = [model.maps[0].cpu()]; np.stack(maps)",
        "np.stack([block.maps.mean(0).numpy() for block in model.blocks])",
        "np.asarray(model.maps)",
        "shown(model.maps[0].cpu())",
        "model.seen = model.maps; np.save('m', model.seen)",
        "for block in model.as_list: block.numpy()",
        "every = []; every.append(model.maps); torch.cat(every).numpy()",
        "np.stack(list(model.gathered()))",
        "first, last = model.maps; first.T.numpy()",
    ],
)
def test_it_is_followed_to_numpy(read: str) -> None:
    assert is_refused(read=read)


@pytest.mark.parametrize(
    "read",
    [
        "np.save('m', model.maps[0].float().numpy())",
        "np.save('m', model.maps[0].to(torch.float32).numpy())",
        "np.mean([each.item() for each in model.maps])",
        "np.array(model.maps.tolist())",
        "np.prod(model.maps.shape)",
        "np.save('m', model.other.numpy())",
        "np.save('m', model.maps(epoch))",
        "torch.save(model.maps, 'm')",
        "model(example); np.save('m', model.maps.numpy())",
        "other = Block(); other(example); plt.imshow(other.maps)",
        NORM,
    ],
)
def test_what_numpy_can_take_or_is_not_given_is_no_reason(read: str) -> None:
    assert not is_refused(read=read)


@pytest.mark.parametrize(
    ("kept", "refused"),
    [
        ("self.maps, self.n = scores.detach(), 3", True),
        ("self.maps = []; self.maps.append(found)", True),
        ("self.maps['first'] = scores", True),
        ("self.maps = x = scores[0]; x = x.cpu()", True),
        ("self.maps = scores.float().detach()", False),
        ("self.maps = scores.argmax(1)", False),
        ("self.maps = 3", False),
        ("best, places = scores.max(1); self.maps = best", True),
        ("best, places = scores.max(1); self.maps = places", False),
        ("self.maps = 0.5 * scores", True),
        ("self.maps = max(0.5, self.rate * 0.9)", False),
        ("self.maps = (3, found.shape[1] // self.size)", False),
        ("self.maps = scores.shape", False),
        ("self.maps = torch.zeros(3)", False),
        ("maps = scores.detach()", False),
    ],
)
def test_what_may_be_in_the_short_format_counts(kept: str, refused: bool) -> None:
    assert is_refused(kept=kept) is refused


def test_what_is_made_from_no_class_is_no_module() -> None:
    text = source(BLOCK.format(kept=KEPT))
    assert kept_attributes(parsed({NET: text}, Places(), NET), on_a_gpu=False) == {"maps"}
    text = text.replace("(torch.nn.Module)", "")
    assert kept_attributes(parsed({NET: text}, Places(), NET), on_a_gpu=False) == set()


def test_a_softmax_is_float32_on_a_gpu_alone() -> None:
    kept = "p = torch.softmax(scores, -1); self.maps = p.detach()"
    assert is_refused(kept)
    assert not is_refused(kept, edit=ON_A_GPU)
    assert is_refused(edit=ON_A_GPU)


def test_numpy_has_float16() -> None:
    assert not is_refused(edit=FP16)
