"""Windows in order of what was taken from them."""

import pytest

from tests import builders
from tests.bench.stolen import PARTS, in_parts, missed


def test_windows_are_put_in_order_of_what_they_missed() -> None:
    windows = [
        builders.window(
            seconds=1.0,
            samples=200 - 10 * part,
            cpu_seconds=1.5 - 0.1 * part,
            stolen_seconds=0.1 * part,
        )
        for part in range(PARTS)
    ]
    parts = in_parts(windows[::-1])
    assert [part["stolen"] for part in parts] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert [part["speed"] for part in parts] == pytest.approx([1.0, 0.95, 0.9, 0.85, 0.8])
    assert missed(windows[-1]) == pytest.approx(0.4 / 1.5)
