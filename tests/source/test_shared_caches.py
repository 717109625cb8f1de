"""A cache on disk whose files several samples share is told from one with a file for each."""

import pytest

from autotune.source.edits import Places
from autotune.source.program import parsed
from autotune.source.refusals.shared import filled_by_several

PROGRAM = """\
import os
import numpy as np
import torch
from pathlib import Path

class Scenes(torch.utils.data.Dataset):
    def __init__(self, folder, paths):
        self.folder, self.paths = Path(folder), paths

    def _shard(self, number):
        path = self.folder / f"{{number:04d}}.npy"
        {fill}
        return np.load(path)

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        {number}
        return self._shard(number)[index % 64]

def prepare(folder):
    for number in range(64):
        if not os.path.exists(f"{{folder}}/{{number // 2}}.txt"):
            np.save(f"{{folder}}/{{number // 2}}.txt", decoded(number))
"""
FILL = "if not path.exists(): np.save(path, decoded(number))"
NUMBER = "number = index // 64"


def found(fill: str = FILL, number: str = NUMBER) -> str:
    text = PROGRAM.format(fill=fill, number=number)
    return filled_by_several(parsed({"/p/train.py": text}, Places(), "/p/train.py"))


@pytest.mark.parametrize(
    ("fill", "number"),
    [
        (FILL, NUMBER),
        (FILL, "number, inner = divmod(index, 64)"),
        (FILL, "number = bisect.bisect(self.ends, index)"),
        (FILL, "number = index % 100"),
        (FILL.replace("path.exists()", "os.path.exists(str(path))"), NUMBER),
        (FILL.replace("np.save(path, decoded(number))", "path.write_bytes(made(number))"), NUMBER),
        (FILL, "number = index // 64; name = self.paths[index].replace('/', '_')"),
    ],
)
def test_files_of_several_samples(fill: str, number: str) -> None:
    assert found(fill, number) == "train.py:12"


def test_what_is_not_there_may_be_told_by_an_error() -> None:
    fill = (
        "try:\n            return np.load(path)\n        except FileNotFoundError:\n"
        "            np.save(path, decoded(number))"
    )
    assert found(fill) == "train.py:15"


@pytest.mark.parametrize(
    ("fill", "number"),
    [
        (FILL, "number = index"),
        (FILL, "number = '%04d' % index"),
        (FILL, "number = self.paths[index]"),
        (FILL, "number = self.template % index"),
        (FILL, "row, column = divmod(index, 64); number = f'{row}_{column}'"),
        (FILL.replace("(path,", "(path / f'{index // 9}_{index % 9}',"), "number = index"),
        ("np.save(path, decoded(number))", NUMBER),  # whatever is there: not a cache
        ("if not path.exists(): decoded(number)", NUMBER),
        (FILL + "; os.replace(path, path)", NUMBER),
        (FILL + "; path.replace(path)", NUMBER),
        ("with FileLock(path):\n            " + FILL, NUMBER),
        ("with self.lock: pass\n        " + FILL, "fcntl.flock(self.lock); " + NUMBER),
    ],
)
def test_a_file_for_each_and_those_that_are_put_there_as_a_whole_are_none(
    fill: str, number: str
) -> None:
    assert not found(fill, number)
