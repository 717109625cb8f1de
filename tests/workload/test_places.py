"""Where a call comes from: file, line, and the column of what is built."""

import os
from typing import Any

import torch

from autotune.source.edits import Place
from autotune.workload.places import calling_place

TEXT = """
class Built:
    def __init__(self, first):
        found.append(calling_place(building=self))
        found.append(calling_place())

class Heir(Built):
    def __init__(self):
        super().__init__(1)

é, one, two = "ü", Built(1), [
    Heir()]
"""


def test_of_what_is_built_the_column_is_told_too() -> None:
    found: list[Place] = []
    names: dict[str, Any] = {"found": found, "calling_place": calling_place}
    exec(compile(TEXT, "/project/train.py", "exec"), names)
    lines = [(place.line, place.column) for place in found]
    assert lines == [(11, 21), (5, None), (12, 4), (5, None)]


def test_a_library_whose_name_begins_with_torchs_is_none_of_it() -> None:
    path = f"{os.path.dirname(torch.__file__)}_ac/algo.py"
    names: dict[str, Any] = {"calling_place": calling_place}
    exec(compile("found = calling_place()", path, "exec"), names)
    assert names["found"] == Place(path=path, line=1)


def test_a_column_makes_no_other_place() -> None:
    one, other = (Place(path="/project/train.py", line=3, column=at) for at in (4, None))
    assert one == other and hash(one) == hash(other)
