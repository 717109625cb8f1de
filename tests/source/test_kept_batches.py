"""Workers are refused where a training keeps what they have sent from epoch to epoch."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.kept_batches import kept_for_good

TEXT = """\
history, seen = [], {}
for epoch in range(25):
    ANEW
    for batch in loader:
        images, labels, indices = batch
        loss = loss_of(net(images), labels)
        loss.backward()
        optimizer.step()
        KEPT
"""


def place(kept: str, anew: str = "pass") -> str:
    """Where a program with these statements keeps tensors of its batches for good."""
    text = TEXT.replace("KEPT", kept).replace("ANEW", anew)
    places = Places(backward=Place(path="/p/train.py", line=7))
    return kept_for_good(parsed({"/p/train.py": text}, places, "/p/train.py"))


@pytest.mark.parametrize(
    "kept",
    [
        "history.append(indices)",
        "history.append((indices, loss.item()))",
        "history.append(batch[2])",
        "history += [labels.detach()]",
        "seen[epoch] = indices",
        "rows = indices\n        history.append({'rows': rows})",
    ],
)
def test_kept(kept: str) -> None:
    assert place(kept) == f"train.py:{9 + kept.count(chr(10))}"
    assert place(kept, "history = []; seen = {}") == ""
    assert place(kept, "history.clear(); seen.clear()") == ""


@pytest.mark.parametrize(
    "kept",
    [
        "history.append(indices.clone())",
        "history.append(indices.tolist())",
        "history.append(loss.item())",
        "history.append(len(indices))",
        "history.append(indices.numpy().copy())",
        "labels = labels + 1",
    ],
)
def test_copies_and_numbers(kept: str) -> None:
    assert place(kept) == ""


def test_in_a_function_that_begins_its_list_anew() -> None:
    text = (
        "def fit():\n    history = []\n    for x, y in loader:\n"
        "        loss_of(net(x), y).backward()\n        history.append(y)\n    return history\n\n"
        "for epoch in range(3):\n    fit()\n"
    )
    places = Places(backward=Place(path="/p/train.py", line=4))
    assert kept_for_good(parsed({"/p/train.py": text}, places, "/p/train.py")) == ""
    kept = text.replace("    history = []\n", "").replace("fit():", "fit(history):")
    places = Places(backward=Place(path="/p/train.py", line=3))
    assert kept_for_good(parsed({"/p/train.py": kept}, places, "/p/train.py")) == "train.py:4"
