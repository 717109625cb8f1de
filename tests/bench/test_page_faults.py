"""What keeping memory gains is said by the medians of the rounds."""

from tests.bench.page_faults import named, said


def test_settings_are_compared_with_those_that_keep_memory_beside_them() -> None:
    timings = {
        "as it is": [(90_000.0, 0.1), (100_000.0, 0.11), (110_000.0, 0.3)],
        "keep_freed_memory=True": [(0.0, 0.09), (0.0, 0.1), (0.0, 0.08)],
        "precision=bf16": [(0.0, 0.05)],
        "precision=bf16 keep_freed_memory=True": [(0.0, 0.05)],
    }
    assert said(named({}), timings) == (
        "as it is: 100,000 faults a second, 110.0 ms a step; kept 0 and 90.0 ms, 1.22 times as "
        "fast, 1.8 us a fault"
    )
    without = said(named({"precision": "bf16"}), timings)
    assert without.endswith("kept 0 and 50.0 ms, 1.00 times as fast")
