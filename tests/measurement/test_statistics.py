"""What may be said from timed windows, held against known truths and simulated programs."""

import math
import random

import pytest

from autotune.measurement.ratios import LOOKS, Ratio, confidence_per_look, ratio_in_turns, widened
from autotune.measurement.statistics import merged, rate, stable, student_t, throughput
from autotune.workload.window import Window
from tests.bench.simulation import DEFAULT_PLAN, Noise, claim_shares, process_pair


def window(samples_per_second, *, seconds=0.3, steps=10):
    return Window(
        mode="as_is",
        steps=steps,
        samples=round(samples_per_second * seconds),
        seconds=seconds,
        step_seconds=(seconds / max(steps, 1),) * steps,
    )


def windows(*rates):
    return [window(each) for each in rates]


@pytest.mark.parametrize(
    ("confidence", "degrees", "expected"),
    [
        (0.95, 1, 12.70620),
        (0.95, 2, 4.30265),
        (0.95, 3, 3.18245),
        (0.95, 10, 2.22814),
        (0.99, 5, 4.03214),
        (0.95, 1000, 1.96234),
        (0.5, 3, 0.76489),
    ],
)
def test_quantiles_of_t_are_those_of_the_tables(confidence, degrees, expected):
    assert student_t(confidence, degrees) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("confidence", "degrees"), [(0.95, 0), (1.0, 5), (0.0, 5)])
def test_a_quantile_that_does_not_exist_is_refused(confidence, degrees):
    with pytest.raises(ValueError, match="no t quantile"):
        student_t(confidence, degrees)


def test_throughput_is_samples_over_wall_and_not_the_median_step():
    # Two batches come at once, then a long wait: the median step says 1000 samples/s.
    burst = (0.001, 0.001, 0.198) * 20
    seen, _ = throughput(
        [Window(mode="as_is", steps=60, samples=60, seconds=4.0, step_seconds=burst)]
    )
    assert seen == pytest.approx(15.0)


def test_the_throughput_of_equal_windows_is_certain():
    estimate, (low, high) = throughput(windows(*[100.0] * 6))
    assert low == pytest.approx(estimate) == high == pytest.approx(100.0)


def test_the_interval_of_a_throughput_holds_the_truth_as_often_as_it_says():
    chance = random.Random(1)
    held = 0
    for _ in range(400):
        _, (low, high) = throughput(windows(*(chance.gauss(1000, 50) for _ in range(8))))
        held += low <= 1000 <= high
    assert 0.92 <= held / 400 <= 0.98


def test_one_window_has_an_interval_from_its_steps():
    chance = random.Random(2)
    steps = tuple(chance.uniform(0.05, 0.15) for _ in range(40))
    only = Window(mode="as_is", steps=40, samples=400, seconds=sum(steps), step_seconds=steps)
    estimate, (low, high) = throughput([only])
    assert estimate == pytest.approx(400 / sum(steps))
    assert 0.8 * estimate < low < estimate < high < 1.2 * estimate


def test_one_step_has_an_interval_as_wide_as_processes_differ():
    _, (low, high) = throughput([window(100.0, steps=1)])
    assert low < 60
    assert high > 170
    assert math.isfinite(high)


def test_nothing_timed_is_no_throughput():
    assert throughput([]) == (0.0, (0.0, 0.0))
    assert rate([]) == 0.0


def test_warm_up_is_over_when_windows_agree():
    assert stable(windows(20, 90, 100, 102, 99))
    assert stable(windows(100, 103, 98))


def test_warm_up_goes_on_while_it_gets_faster_or_differs():
    assert not stable(windows(100, 102))
    assert not stable(windows(92, 96, 101))
    assert not stable(windows(100, 96, 92))
    assert not stable(windows(100, 130, 98))
    assert not stable([window(0.0, steps=0) for _ in range(3)])


def test_windows_that_hold_less_than_a_burst_are_put_together():
    burst = [window(10, steps=1), window(400, steps=7)] * 3
    assert not stable(burst)
    assert stable(burst, least_steps=8)
    assert merged(burst, 8) == ((123, 0.6),) * 3


def test_what_is_left_over_joins_the_last_window():
    assert merged([window(100, steps=4), window(100, steps=4), window(100, steps=1)], 8) == (
        (90, pytest.approx(0.9)),
    )
    assert merged([window(100, steps=2)], 8) == ((30, 0.3),)
    assert merged([]) == ()


def test_a_ratio_is_that_of_the_totals():
    turns = [((100, 1.0), (300, 1.0)), ((100, 3.0), (300, 1.0))]
    assert ratio_in_turns([turns]).estimate == pytest.approx(300 / 50)


def test_a_ratio_of_several_processes_is_their_geometric_mean():
    doubled, same = [((100, 1.0), (200, 1.0))] * 4, [((100, 1.0), (100, 1.0))] * 4
    found = ratio_in_turns([doubled, same, []])
    assert found.estimate == pytest.approx(math.sqrt(2))
    assert found.low < 1 < found.high


def test_one_pair_of_processes_does_not_prove_ten_percent_however_long_it_runs():
    turns = [((1000, 1.0), (1100, 1.0))] * 500
    assert ratio_in_turns([turns]).low < 1
    assert ratio_in_turns([turns] * 4).low > 1


def test_an_eightfold_gain_is_plain_at_the_first_look():
    turns = process_pair(8.0, (5, 5), Noise(), random.Random(3))
    assert ratio_in_turns([turns], confidence=confidence_per_look(len(LOOKS))).low > 5


def test_a_single_turn_is_hardly_evidence():
    found = ratio_in_turns([[((100, 1.0), (150, 1.0))]])
    assert found.low < 1


def test_likeness_of_neighbouring_turns_widens_the_interval():
    slow_wave = [((100, 1.0), (round(100 * (1 + 0.2 * math.sin(i / 4))), 1.0)) for i in range(50)]
    mixed = random.Random(4).sample(slow_wave, len(slow_wave))

    def width(turns):
        found = ratio_in_turns([turns])
        return found.high / found.low

    assert width(slow_wave) > width(mixed)


def test_what_never_ran_has_no_ratio():
    with pytest.raises(ValueError, match="at least one turn"):
        ratio_in_turns([[]])
    with pytest.raises(ValueError, match="trained on nothing"):
        ratio_in_turns([[((0, 1.0), (10, 1.0))]])


def test_more_looks_are_each_more_careful():
    levels = [confidence_per_look(looks) for looks in range(1, 6)]
    assert levels[0] == 0.95
    assert levels == sorted(levels)
    with pytest.raises(ValueError, match="plan between 1 and 5"):
        confidence_per_look(6)


# The simulations below are those of tests.bench.simulation.py, with fewer rounds. Bounds leave room
# for their own error, about 1 point at the 5 % level.


@pytest.mark.parametrize(
    "noise",
    [Noise(), Noise(process=0.05), Noise(turn=0.12, correlation=0.5, process=0.03, stalls=0.05)],
    ids=["usual", "processes differ", "rough"],
)
def test_two_identical_programs_are_hardly_ever_told_apart(noise):
    shares = claim_shares(1.0, DEFAULT_PLAN, noise, rounds=400)
    assert shares["faster"] + shares["slower"] <= 0.05


def test_a_gain_of_ten_percent_is_mostly_found_and_never_turned_round():
    shares = claim_shares(1.1, DEFAULT_PLAN, Noise(), rounds=300)
    assert shares["faster"] >= 0.75
    assert shares["slower"] == 0


def test_the_interval_of_a_ratio_holds_the_truth_as_often_as_it_says():
    chance = random.Random(5)
    held = 0
    for _ in range(300):
        found = ratio_in_turns(
            [process_pair(1.5, (5, 5), Noise(stalls=0), chance) for _ in range(4)]
        )
        held += found.low <= 1.5 <= found.high
    assert held / 300 >= 0.95


def test_what_all_pairs_have_in_common_widens_an_interval_beside_what_they_scatter_by() -> None:
    found = Ratio(estimate=2.0, low=2.0 / 1.1, high=2.0 * 1.2, confidence=0.95)
    assert widened(found, 0.0) == found
    wider = widened(found, 0.1)
    reach = 1.96 * 0.1
    assert wider.estimate == 2.0
    assert math.log(2.0 / wider.low) == pytest.approx(math.hypot(math.log(1.1), reach), rel=1e-3)
    assert math.log(wider.high / 2.0) == pytest.approx(math.hypot(math.log(1.2), reach), rel=1e-3)
