"""Workers are refused where making a sample writes into a file that was opened before."""

import pytest

from autotune.source.edits import Places
from autotune.source.program import parsed
from autotune.source.refusals.rewritten_files import written_by_samples

TEXT = """\
import csv, json, sys
OUT = open("out.csv", "w")

class Clips:
    def __init__(self, path):
        self.log = open(path, "w")
        self.table = csv.writer(self.log)
    def note(self, level):
        NOTED
    def __getitem__(self, at):
        READ
        return at

def main():
    data = Clips("x")
    data.log.write("level")
"""


def found(read: str, noted: str = "pass") -> str:
    text = TEXT.replace("READ", read).replace("NOTED", noted)
    return written_by_samples(parsed({"/p/train.py": text}, Places(), "/p/train.py"))


@pytest.mark.parametrize(
    "read",
    [
        "self.log.write(f'{at}')",
        "self.table.writerow([at])",
        "print(at, file=self.log)",
        "OUT.write('x')",
        "json.dump(at, self.log)",
    ],
)
def test_what_is_held_back_in_a_file_is_told(read: str) -> None:
    assert found(read) == "train.py:11"
    assert found("self.note(at)", read) == "train.py:9"


@pytest.mark.parametrize(
    "read",
    [
        "pass",
        "sys.stderr.write('x')",
        "print(at)",
        "file = open('x', 'a'); file.write('x'); file.close()",
        "json.dumps(at)",
    ],
)
def test_what_holds_nothing_back_is_not(read: str) -> None:
    assert found(read) == ""
