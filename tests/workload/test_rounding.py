"""What looks at numbers that are rounded to a short format see of them."""

import math

import pytest
import torch

from autotune.workload.looks.inputs import Inputs
from autotune.workload.looks.rounding import _middle


@pytest.mark.parametrize("size", [4e4, 1e5], ids=["rounded", "beyond the format"])
def test_a_column_that_loses_most_is_found_beside_others(size: float) -> None:
    looks = Inputs()
    torch.manual_seed(0)
    for _ in range(2):
        rows = torch.stack([torch.randn(64), size + 100 * torch.randn(64)], dim=1)
        looks.note(torch.ops.aten._to_copy, (rows,), {"dtype": torch.float16})
        looks.step()
    assert looks.found is not None
    assert looks.found.size == pytest.approx(size, rel=0.01)
    assert (looks.found.noise == 1.0) is (size > torch.finfo(torch.float16).max)


@pytest.mark.parametrize("several", [4, 5])
def test_the_middle_is_torchs_median_of_what_are_numbers(several: int) -> None:
    numbers = torch.rand(3, several)
    numbers[1, 0] = math.nan
    assert torch.equal(_middle(numbers), numbers.nanmedian(-1, keepdim=True).values)
    assert _middle(torch.full((1, several), math.nan)).isnan().all()
