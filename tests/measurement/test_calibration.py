import random

import pytest

from autotune.errors import MeasurementError
from autotune.measurement.interleaved.calibration import conclude
from autotune.measurement.ratios import LOOKS, confidence_per_look, ratio_in_turns
from tests.bench.simulation import Noise, process_pair

QUIET = Noise(turn=0.02, process=0.01, stalls=0.0)
ROUGH = Noise(turn=0.12, process=0.06, stalls=0.0)


def rounds_in(noise: Noise, count: int = 9):
    chance = random.Random(7)
    return [process_pair(1.0, (5, 5), noise, chance) for _ in range(count)]


def test_a_larger_gain_is_told_sooner():
    found = conclude(rounds_in(ROUGH), 0, seconds=54.0)
    seconds = [each.seconds for each in found.tellable]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] > seconds[-1]


def test_a_quiet_machine_tells_smaller_gains():
    quiet = conclude(rounds_in(QUIET), 0, seconds=54.0)
    rough = conclude(rounds_in(ROUGH), 0, seconds=54.0)
    assert quiet.pair_scatter < rough.pair_scatter
    assert quiet.turn_scatter < rough.turn_scatter
    assert quiet.smallest_gain < rough.smallest_gain


def test_what_takes_longer_than_a_search_measures_is_said_to():
    found = conclude(rounds_in(ROUGH), 0, seconds=54.0)
    for each in found.tellable:
        assert each.within_a_search == (each.gain >= found.smallest_gain)
        assert each.within_a_search == (each.seconds <= LOOKS[-1] * found.round_seconds)


def test_identical_programs_come_out_equal():
    found = conclude(rounds_in(QUIET), 0, seconds=54.0)
    assert found.ratio.low < 1 < found.ratio.high


def test_the_gain_that_it_promises_is_found_as_often_as_it_says():
    found = conclude(rounds_in(QUIET, 200), 0, seconds=1200.0)
    chance, told = random.Random(3), 0
    for _ in range(200):
        pairs = [
            process_pair(1 + found.smallest_gain, (5, 5), QUIET, chance) for _ in range(LOOKS[-1])
        ]
        told += ratio_in_turns(pairs, confidence=confidence_per_look(len(LOOKS))).low > 1
    assert 0.7 < told / 200 < 0.95


def test_a_machine_that_spoils_most_turns_is_too_busy():
    with pytest.raises(MeasurementError, match="spoilt 40 of 55 turns"):
        conclude(rounds_in(QUIET, 3), 40, seconds=20.0)
    with pytest.raises(MeasurementError, match="too busy"):
        conclude(rounds_in(QUIET, 2), 5, seconds=20.0)
