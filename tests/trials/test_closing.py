"""What trials have shown to be too large is not tried in another dress."""

import math
from dataclasses import replace

import pytest

from autotune.measurement.measurement import Failure
from autotune.trials.closing import closed_by, key_of, most_workers
from autotune.trials.trial import Trial
from tests import builders
from tests.builders import MIB


def taking(
    number: int, workers: int, megabytes: int, *, own: int = 320, device: str = "cpu"
) -> Trial:
    """A trial with so many workers that took so much, the training process's own part of it."""
    seen = builders.seen(device=device)
    assert seen.loader is not None
    seen = replace(seen, loader=replace(seen.loader, num_workers=workers))
    windows = (builders.window(peak_bytes=own * MIB),)
    outcome = builders.measurement(100.0, seen=seen, windows=windows, peak_bytes=megabytes * MIB)
    return builders.trial(number, {"num_workers": workers} if number else {}, outcome)


AS_IT_IS = taking(0, 0, 300, own=300)


@pytest.mark.parametrize(
    ("trials", "limit", "most"),
    [
        ([taking(1, 32, 640)], 450, 15),  # 10 each, beside 300
        ([taking(1, 32, 640)], 1000, 70),
        ([taking(1, 32, 640), taking(2, 16, 455)], 450, 15),
        ([taking(1, 8, 480, own=460)], 450, 60),  # not the workers' doing
        ([taking(1, 8, 320)], 450, math.inf),  # they take nothing
        ([], 450, math.inf),
    ],
)
def test_as_many_workers_as_fit_are_tried(trials: list[Trial], limit: int, most: float) -> None:
    assert most_workers([AS_IT_IS, *trials], limit * MIB) == pytest.approx(most, abs=3)
    assert most_workers([AS_IT_IS, *trials], None) == math.inf


def test_workers_take_nothing_of_a_gpu() -> None:
    trials = [taking(number, 8 * number, 640, device="cuda") for number in range(2)]
    assert most_workers(trials, 450 * MIB) == math.inf


def test_more_workers_than_fit_are_not_tried_beside_anything() -> None:
    closed = closed_by([AS_IT_IS], lambda _: True, fed=False, workers=15.5)
    assert closed(key_of({"num_workers": 16, "optimizer": "fused"}))
    assert not closed(key_of({"num_workers": 15, "optimizer": "fused"}))
    assert not closed(key_of({"threads": 32}))


def test_a_larger_batch_than_one_that_was_too_large_is_not_tried() -> None:
    large = Failure(kind="out_of_memory", reason="It ran out of memory.")
    tried = [AS_IT_IS, builders.trial(1, {"batch_size": 128, "optimizer": "fused"}, large)]
    closed = closed_by(tried, lambda trial: trial is AS_IT_IS, fed=False)
    assert closed(key_of({"batch_size": 128, "optimizer": "fused", "threads": 1}))
    assert closed(key_of({"batch_size": 256, "optimizer": "fused"}))
    assert not closed(key_of({"batch_size": 64, "optimizer": "fused"}))
    assert not closed(key_of({"optimizer": "fused"}))
