"""Threads of NumPy's linear algebra are counted and limited, in loader workers too."""

import numpy as np  # noqa: F401 - it brings OpenBLAS along
import pytest
from torch.utils.data import DataLoader, Dataset

from autotune.workload.system.blas import blas_threads, limit_blas_threads


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
