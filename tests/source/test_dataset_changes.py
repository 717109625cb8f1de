"""Changes of what samples are made by are told from those of their order."""

import pytest

from autotune.source.calls.building import building
from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.dataset_changes import changed_in_training, changed_later

PROGRAM = """\
from torch.utils.data import DataLoader, Dataset

class Hides(Dataset):
    def __init__(self):
        self.strength, self.epoch = 0.0, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def harder(self, by):
        self.strength += by

    def set_mode(self, mode="plain"):
        self.mode = mode

    def report(self):
        return f"{self.strength:.2f}"

def main(args):
    hides = Hides()
    loader = DataLoader(hides, batch_size=8)
    hides.harder(args.start)
    for epoch in range(args.epochs):
        EPOCH
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
            STEP
    hides.harder(args.after)
"""


def found(*, epoch: str = "pass", step: str = "pass") -> str:
    text = PROGRAM.replace("EPOCH", epoch).replace("STEP", step)
    places = Places(loader=Place(path="run.py", line=21), backward=Place(path="run.py", line=26))
    return changed_in_training(parsed({"run.py": text}, places, "run.py"))


@pytest.mark.parametrize(
    "change",
    [
        "hides.strength = min(0.8, accuracy)",
        "hides.harder(0.1)",
        "hides.samples.append(x)",
        "val_part.dataset.harder(0.1)",  # a part of what the rest is of, too
    ],
)
def test_a_change_of_the_dataset_while_it_trains_is_found(change: str) -> None:
    assert found(step=change) == "run.py:28"
    assert found(epoch=change) == "run.py:24"


@pytest.mark.parametrize(
    "change",
    [
        "hides.set_epoch(epoch)",
        "random.shuffle(hides.samples)",
        "print(hides.report())",
        "val_loader.dataset.harder(0.1)",
        "pass",
    ],
)
def test_another_order_is_no_other_kind_of_sample_and_reading_changes_nothing(change: str) -> None:
    assert found(epoch=change) == ""


@pytest.mark.parametrize(
    ("epoch", "line"),
    [
        ("hides.strength = 0.0; score(hides); hides.strength = 1.0", ""),
        ("hides.strength = 0.0; score(hides)", "run.py:24"),
        ("hides.strength = late; score(hides); hides.strength = 1.0", "run.py:24"),
        ("hides.set_mode('train')", ""),
        ("hides.set_mode('train'); hides.set_mode('hard')", "run.py:24"),
        ("hides.set_mode(mode)", "run.py:24"),
        ("hides.set_mode()", "run.py:24"),
        ("hides.harder(0.1); hides.set_mode('train')", "run.py:24"),
    ],
)
def test_what_is_put_back_or_set_alike_in_each_epoch_changes_none(epoch: str, line: str) -> None:
    assert found(epoch=epoch) == line


MADE_ANEW = """\
from torch.utils.data import DataLoader

def feed(PARAMETERS):
    FIRST
    for row in rows:
        samples.append(torch.tensor(row))
    return DataLoader(samples, batch_size=8)

def main():
    for client in clients:
        loader = feed(client.rows, client)
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("parameters", "first", "line"),
    [
        ("rows", "samples = []", ""),
        ("rows, samples", "pass", "run.py:6"),
        ("rows, at", "samples = at.dataset.rows = []", "run.py:4"),
    ],
)
def test_what_makes_a_dataset_for_each_client_changes_none(
    parameters: str, first: str, line: str
) -> None:
    text = MADE_ANEW.replace("PARAMETERS", parameters).replace("FIRST", first)
    places = Places(loader=Place(path="run.py", line=7), backward=Place(path="run.py", line=13))
    assert changed_in_training(parsed({"run.py": text}, places, "run.py")) == line


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("self.columns[name]", ""),
        ("self.handle.create_dataset(name)", ""),
        ("self.hides", "run.py:34"),
        ("loaders[0].dataset", "run.py:34"),
        ("get_train_set()", "run.py:34"),
    ],
)
def test_a_variable_of_that_name_that_is_another_is_none(value: str, line: str) -> None:
    text = PROGRAM.replace("STEP", "log(accuracy)").replace("EPOCH", "pass")
    text += f"\n\ndef log(by):\n    hides = {value}\n    hides.harder(by)\n    hides[0] = data\n"
    places = Places(loader=Place(path="run.py", line=21), backward=Place(path="run.py", line=26))
    assert changed_in_training(parsed({"run.py": text}, places, "run.py")) == line


@pytest.mark.parametrize(("name", "line"), [("forward", ""), ("harden", "run.py:33")])
def test_what_a_model_is_given_is_a_batch(name: str, line: str) -> None:
    text = PROGRAM.replace("STEP", f"{name}(hides)").replace("EPOCH", "pass")
    text += f"\n\ndef {name}(hides):\n    hides.harder(2)\n"
    places = Places(loader=Place(path="run.py", line=21), backward=Place(path="run.py", line=26))
    assert changed_in_training(parsed({"run.py": text}, places, "run.py")) == line


REBUILT = """\
def main(rows):
    LOADER
    for epoch in range(9):
        rows.draw()
        EPOCH
        for x, y in loader:
            criterion(model(x), y).backward()
            STEP
"""
BUILDS = "loader = DataLoader(rows)"


@pytest.mark.parametrize(
    ("loader", "epoch", "step", "line"),
    [
        ("pass", BUILDS, "pass", ""),
        ("pass", BUILDS, "rows.draw()", "run.py:8"),
        ("pass", f"if not epoch: {BUILDS}", "pass", "run.py:4"),
        (BUILDS, "pass", "pass", "run.py:4"),
    ],
)
def test_workers_see_what_came_before_their_loader(
    loader: str, epoch: str, step: str, line: str
) -> None:
    text = REBUILT.replace("LOADER", loader).replace("EPOCH", epoch).replace("STEP", step)
    at = 1 + text[: text.index("DataLoader")].count("\n")
    places = Places(loader=Place(path="run.py", line=at), backward=Place(path="run.py", line=7))
    program = parsed({"run.py": text}, places, "run.py")
    assert changed_later(program, building(program, "num_workers", "")) == line


def test_a_loader_that_was_not_seen_tells_nothing() -> None:
    assert changed_in_training(parsed({"run.py": PROGRAM}, Places(), "run.py")) == ""
