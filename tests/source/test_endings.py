"""A training that ends after a number of steps is told from one that ends after its epochs."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.beginnings import ends_by_count
from autotune.source.program import parsed

PATH = "/project/train.py"
STEP = "loss(batch).backward()"
IN_EPOCHS = f"step = 0\nfor epoch in range(9):\n    for batch in loader:\n        {STEP}"
EVALUATION = "    for number, held in enumerate(others):\n        if number > 9: break"
INDENTED = f"        for batch in loader:\n            {STEP}\n            self.step += 1"


@pytest.mark.parametrize(
    ("text", "by_count"),
    [
        (f"for step in range(most): {STEP}", True),
        (f"for step in tqdm(range(most)): {STEP}", True),
        (f"step = 0\nwhile step < most:\n    {STEP}\n    step += 1", True),
        (f"for step, batch in enumerate(forever()):\n    {STEP}\n    if step == most: break", True),
        (f"for batch in loader: {STEP}", False),
        (f"for step, batch in enumerate(loader):\n    {STEP}\n    if bad(loss): break", False),
        (IN_EPOCHS, False),
        (f"{IN_EPOCHS}\n        step += 1\n        if step > most: break", False),
        (f"{IN_EPOCHS}\n        step += 1\n    if step > most: break", True),
        (f"step = 0\nwhile step < most:\n{INDENTED.replace('self.step', 'step')}", True),
        (f"epoch = 0\nwhile epoch < most:\n{INDENTED}\n    epoch += 1", False),
        (f"for batch in loader:\n    {STEP}\n{EVALUATION}", False),
        (
            f"def train():\n    while True:\n{INDENTED}\n            if self.step > most: return",
            True,
        ),
    ],
)
def test_a_count_ends_it(text: str, by_count: bool) -> None:
    line = next(n for n, at in enumerate(text.splitlines(), 1) if "backward" in at)
    places = Places(backward=Place(path=PATH, line=line))
    assert ends_by_count(parsed({PATH: text}, places, PATH)) == by_count
