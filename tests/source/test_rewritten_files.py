"""Workers are refused where a training writes what samples are made from."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.rewritten_files import rewritten

TEXT = """\
import json, os
import numpy as np
HERE = os.path.dirname(__file__)
STATE = os.path.join(HERE, "level.json")
OTHER = os.path.join(HERE, "log.json")

class Rows:
    def __init__(self, table):
        self.table = np.memmap(table, dtype="float32", mode="r")
    def __getitem__(self, at):
        READ
        return at

def save(path, level):
    with open(path + ".tmp", "w") as file:
        json.dump(level, file)
    os.replace(path + ".tmp", path)

def main():
    table = np.memmap(os.path.join(HERE, "hard.dat"), dtype="float32", mode="w+")
    rows = Rows(os.path.join(HERE, "hard.dat"))
    for epoch in range(25):
        for x, y in loader:
            loss = loss_of(net(x), y)
            loss.backward()
            WRITTEN
        AFTER

main()
"""


def found(
    read: str, written: str, after: str = "pass", *, between_epochs: bool = False
) -> tuple[str, str, str]:
    """The file that a program with these statements writes and reads, and where it does so."""
    text = TEXT.replace("READ", read).replace("WRITTEN", written).replace("AFTER", after)
    return found_in(text, between_epochs=between_epochs)


def found_in(text: str, *, between_epochs: bool = False) -> tuple[str, str, str]:
    """The same of a program with this text."""
    line = 1 + text[: text.index(".backward()")].count("\n")
    places = Places(backward=Place(path="/p/train.py", line=line))
    program = parsed({"/p/train.py": text}, places, "/p/train.py")
    return rewritten(program, between_epochs=between_epochs)


@pytest.mark.parametrize(
    ("read", "written", "name"),
    [
        ("level = json.load(open(STATE))", "save(STATE, loss)", "level.json"),
        ("level = Path(STATE).read_text()", "Path(STATE).write_text(str(loss))", "level.json"),
        ("rows = np.load('w.npy')", "np.save(HERE + '/w.npy', loss)", "w.npy"),
        ("rows = np.load('w.npy')", "os.replace('new.npy', 'w.npy')", "w.npy"),
        ("rows = torch.load(HERE / 'w.pt')", "torch.save(loss, f'{HERE}/w.pt')", "w.pt"),
        ("weight = self.table[at]", "table[y] = loss", "hard.dat"),
        (
            "self.base.execute('SELECT hard FROM scores WHERE id = ?', (at,))",
            "base.execute('UPDATE scores SET hard = ? WHERE id = ?', (loss, y))",
            "table scores",
        ),
    ],
)
def test_what_the_loop_over_batches_writes(read: str, written: str, name: str) -> None:
    what, at, by = found(read, written)
    assert what == name and at.startswith("train.py:") and by == "train.py:11"
    assert found(read, "pass", after=written) == ("", "", ""), "between epochs workers see it"


@pytest.mark.parametrize(
    ("read", "name"),
    [
        ("self.level = json.load(open(STATE))", "level.json"),
        ("self.kept[at] = json.load(open(STATE))", "level.json"),
        ("level = json.load(open(STATE))", ""),  # anew for each sample
        ("self.level = json.load(open(OTHER))", ""),
    ],
)
def test_what_is_written_between_epochs_and_kept_where_samples_are_made(
    read: str, name: str
) -> None:
    what, at, by = found(read, "pass", after="save(STATE, 2)", between_epochs=True)
    assert what == name
    assert (at, by) == (("train.py:17", "train.py:11") if name else ("", ""))
    assert found(read, "pass", between_epochs=True) == ("", "", "")


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("level = json.load(open(STATE))", "save(OTHER, loss)"),
        ("level = json.load(open(STATE))", "print(open(STATE).read())"),
        ("level = json.load(open(self.paths[at]))", "save(STATE, loss)"),
        ("weight = self.table[at]", "seen[y] = loss"),
        ("self.base.execute('SELECT hard FROM scores')", "base.execute('UPDATE log SET x = 1')"),
        ("text = at.replace('.jpg', '.txt')", "name = name.replace('.jpg', '.txt')"),
        ("rows = np.load(at.replace('.npy', '_w.npy'))", "print(at.replace('.npy', '_w.npy'))"),
    ],
)
def test_what_is_another_file(read: str, written: str) -> None:
    assert found(read, written) == ("", "", "")


def test_variables_of_one_name_in_two_functions_are_two() -> None:
    text = TEXT.replace("READ", "path = self.paths[at]; rows = open(path).read()")
    text = text.replace("WRITTEN", "note(loss)").replace("AFTER", "pass")
    text += "\ndef note(loss):\n    path = 'log.csv'\n    open(path, 'a').write(str(loss))\n"
    assert found_in(text) == ("", "", "")


def test_a_name_that_is_an_option() -> None:
    option = "import argparse\nargs = parse('--state-file', default='level.json')\n"
    option = option.replace("parse(", "parser.add_argument(")
    read, written = "level = open(args.state_file).read()", "save(args.state_file, loss)"
    text = option + TEXT.replace("READ", read).replace("WRITTEN", written).replace("AFTER", "pass")
    assert found_in(text)[0] == "level.json"
