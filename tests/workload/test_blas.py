"""Threads of NumPy's linear algebra are counted and limited, in loader workers too."""

import subprocess
import sys

import numpy as np  # noqa: F401 - it brings OpenBLAS along
import pytest
from torch.utils.data import DataLoader, Dataset

from autotune.knobs import by_name
from autotune.source.edits import Places, ProcessStatement
from autotune.workload.system.blas import blas_threads, limit_blas_threads
from tests import builders
from tests.source.programs import rewritten


@pytest.fixture(autouse=True)
def own() -> object:
    """Leaves behind what it finds."""
    before = blas_threads()
    if before == 0:
        pytest.skip("this NumPy has no OpenBLAS")
    yield
    limit_blas_threads(before)


class Asking(Dataset[int]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return blas_threads()


def test_a_limit_is_seen_in_effect() -> None:
    limit_blas_threads(2)
    assert blas_threads() == 2
    limit_blas_threads(1)
    assert blas_threads() == 1


def test_workers_that_are_forked_have_it_too() -> None:
    limit_blas_threads(1)
    loader = DataLoader(Asking(), num_workers=1, batch_size=None)
    assert list(loader) == [1, 1]


LATER = """
import threadpoolctl
import torch

import numpy


def threads():
    import scipy.linalg  # which has an OpenBLAS of its own
    return [each["num_threads"] for each in threadpoolctl.threadpool_info()
            if each["internal_api"] == "openblas"]


print(*threads())
"""


def test_the_patch_limits_a_library_too_that_is_loaded_after_its_lines() -> None:
    edits = by_name("blas_threads").edits(1, builders.seen(blas_threads=2))
    assert all(isinstance(edit, ProcessStatement) for edit in edits)
    text = rewritten(LATER, *edits, places=Places()).text

    def threads(source: str) -> set[str]:
        run = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, check=True
        )
        return set(run.stdout.split())

    assert threads(LATER) != {"1"}
    assert threads(text) == {"1"}
