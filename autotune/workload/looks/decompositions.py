"""Products in a short number format, followed to where the matrix is decomposed, inverted or solved
by: what it loses may leave it without what the decomposition needs (not positive definite, say), in
whatever step that which keeps it from that has grown small.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from autotune.workload.found import RoundedMatrix
from autotune.workload.loading.batches import tensors
from autotune.workload.looks.watch import SHORT, operations
from autotune.workload.places import users_place

_PRODUCTS = operations("mm", "bmm", "addmm", "baddbmm", "addbmm")
_CUTTING = operations("index", "index_select", "slice")
# fmt: off
_DECOMPOSITIONS = operations(
    "_linalg_det", "_linalg_eigh", "_linalg_slogdet", "_linalg_solve_ex", "_linalg_svd", "cholesky",
    "linalg_cholesky_ex", "linalg_eig", "linalg_inv_ex", "linalg_ldl_factor_ex", "linalg_lu",
    "linalg_lu_factor_ex", "linalg_qr",
)
# fmt: on


class Decompositions:
    """Sees operations, before and after each, and finds the first such decomposition."""

    def __init__(self) -> None:
        self._short: Any = WeakTensorKeyDictionary()  # square ones and parts, by rows
        self._rows = 0  # of what the operation that is carried out makes its own of
        self._is_product = self._cuts = False
        self.found: RoundedMatrix | None = None

    def note(self, kind: Any, given: Sequence[Any]) -> None:
        """`kind` is about to be carried out with what is `given`."""
        self._rows = max((self._short.get(each, 0) for each in tensors(given)), default=0)
        self._is_product = kind in _PRODUCTS
        self._cuts = self._rows > 0 and kind in _CUTTING
        known = any(_rows_of(each) and each in self._short for each in tensors(given))
        if known and kind in _DECOMPOSITIONS and self.found is None:
            name = str(kind).rpartition(".")[2].strip("_")
            name = name.removeprefix("linalg_").removesuffix("_ex")
            self.found = RoundedMatrix(place=users_place(), decomposition=name)

    def note_result(self, result: Any) -> None:
        """It has given `result`."""
        for each in tensors(result):
            rows = _rows_of(each)
            is_part = self._cuts and each.ndim > 1
            is_product = self._is_product and each.dtype in SHORT
            is_square = rows > 1 and (is_product or rows == self._rows)
            if is_part or is_square:
                self._short[each] = rows or self._rows


def _rows_of(matrix: torch.Tensor) -> int:
    """Of a square one, or several of one size; 0 of any other."""
    return matrix.shape[-1] if matrix.ndim > 1 and matrix.shape[-1] == matrix.shape[-2] else 0
