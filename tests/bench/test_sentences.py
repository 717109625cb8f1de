"""What the text of a training script would have told is written down, with the place."""

from pathlib import Path

import pytest

from tests.bench.sentences import main, program_of, scripts_in

TRAIN = """\
import random
import torch
from torch.utils.data import DataLoader


class Pictures:
    def __len__(self):
        return 9

    def __getitem__(self, index):
        return self.drawn(index, self.size)

    def drawn(self, index, size):
        return index * size * self.noise


def train(model, optimizer, pictures):
    random.seed(3)
    for epoch in range(9):
        model.train()
        for x, y in DataLoader(data):
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
        EPOCH


if __name__ == "__main__":
    train(build(), torch.optim.SGD(weights, lr=0.1), Pictures())
"""


def told(folder: Path, epoch: str) -> list[list[str]]:
    tree = folder / "trees" / "one"
    tree.mkdir(parents=True)
    (tree / "train.py").write_text(TRAIN.replace("EPOCH", epoch))
    (tree / "plot.py").write_text("print('no training')\n")
    main(str(folder / "trees"), str(folder / "out.tsv"))
    return [line.split("\t") for line in (folder / "out.tsv").read_text().splitlines()]


@pytest.mark.parametrize(
    ("epoch", "rule", "place"),
    [
        ("random.seed(5)", "seeded", "random train.py:25"),
        ("model.eval(); test(model)", "evaluated", "train.py:25"),
        ("pictures.noise = 0", "set later", "Pictures.noise train.py:25"),
        ("if epoch > 3: loss = 2 * loss", "stage", "train.py:25"),
    ],
)
def test_what_a_rule_tells_is_a_line(tmp_path: Path, epoch: str, rule: str, place: str) -> None:
    assert told(tmp_path, epoch) == [["one", "train.py", rule, place, ""]]


def test_nothing_is_told_of_what_comes_once(tmp_path: Path) -> None:
    assert told(tmp_path, "pass") == []


def test_a_script_without_a_step_is_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nfor x in data:\n    print(x)\n")
    (script,) = scripts_in(tmp_path)
    assert program_of(script) is None
