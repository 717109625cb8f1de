"""How many number formats are looked at, by the time that there is for it."""

from types import SimpleNamespace
from typing import Any

import pytest

from autotune.measurement.untimed import rounding
from autotune.measurement.untimed.rounding import vet_formats
from autotune.measurement.untimed.vetted import TOO_LITTLE_TIME

LOOK_SECONDS = 6.0
LATE = f"fp16 could not be looked at {TOO_LITTLE_TIME}"


@pytest.mark.parametrize(
    ("found", "left", "kept", "reason"),
    [
        ("", 60.0, ("tf32", "bf16", "fp16"), ""),
        ("", 20.0, ("tf32", "bf16"), LATE),
        ("", -5.0, ("tf32", "bf16"), LATE),  # the first is looked at in any case
        ("it rounds", 20.0, ("tf32",), f"it rounds; {LATE}"),
    ],
)
def test_a_further_format_is_left_out_where_looking_at_it_takes_much_of_the_time_for_trials(
    found: str, left: float, kept: tuple[str, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 100.0

    def look(*_: Any) -> str:
        nonlocal seconds
        seconds += LOOK_SECONDS
        return found

    monkeypatch.setattr(rounding, "time", SimpleNamespace(monotonic=lambda: seconds))
    monkeypatch.setattr(rounding, "_too_far", look)
    start: Any = None
    vetted = vet_formats(start, ("tf32", "bf16", "fp16"), 1.0, trials_deadline=seconds + left)
    assert (vetted.values, vetted.reason) == (kept, reason)
