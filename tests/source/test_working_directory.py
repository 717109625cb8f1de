"""Workers do not live on where the training goes to another folder."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.workers import changed_directory

TEXT = """\
import os
AT_FIRST
loader = DataLoader(data, num_workers=2)

def stage(folder):
    IN_A_STAGE

for folder in folders:
    stage(folder)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("at_first", "in_a_stage", "found"),
    [
        ("pass", "os.chdir(folder)", "train.py:6"),
        ("pass", "with contextlib.chdir(folder): pass", "train.py:6"),
        ("os.chdir(os.path.dirname(__file__))", "pass", ""),
        ("pass", "print('chdir', folder)", ""),
    ],
)
def test_where_the_training_goes_to_another_folder(
    at_first: str, in_a_stage: str, found: str
) -> None:
    text = TEXT.replace("AT_FIRST", at_first).replace("IN_A_STAGE", in_a_stage)
    places = Places(
        loader=Place(path="/p/train.py", line=3), backward=Place(path="/p/train.py", line=12)
    )
    assert changed_directory(parsed({"/p/train.py": text}, places, "/p/train.py")) == found


def test_a_function_may_go_to_its_folder_before_it_trains() -> None:
    text = """\
def main():
    os.chdir(os.path.dirname(__file__))
    for x, y in DataLoader(data, num_workers=2):
        criterion(model(x), y).backward()
        optimizer.step()

main()
"""
    places = Places(
        loader=Place(path="/p/train.py", line=3), backward=Place(path="/p/train.py", line=4)
    )
    assert changed_directory(parsed({"/p/train.py": text}, places, "/p/train.py")) == ""
