"""What people say of a search is refused before anything is measured."""

from typing import Any

import pytest

from autotune.errors import UsageError
from autotune.flow import Options


@pytest.mark.parametrize(
    ("said", "message", "advice"),
    [
        ({"knobs": {"num_worker": (2,)}}, "no knob called 'num_worker'", "num_workers?"),
        ({"knobs": {"num_worker": None}}, "no knob called 'num_worker'", "num_workers?"),
        ({"knobs": {"precision": ("fp32", "fp8")}}, "precision cannot be fp8", "bf16"),
    ],
)
def test_a_knob_or_a_value_that_there_is_not(
    said: dict[str, Any], message: str, advice: str
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        Options.said(budget="60s", **said)
    assert advice in str(error.value.advice)
