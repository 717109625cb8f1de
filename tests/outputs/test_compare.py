import json
import math
from dataclasses import replace

import pytest

from autotune.errors import UsageError
from autotune.measurement.ratios import PAIR_SCATTER
from autotune.outputs.compare import compare_results
from autotune.outputs.plain import plain
from autotune.profiling.profile import PROCESSORS_TAKEN, Doubt
from autotune.result import Result
from tests import builders


def result(
    speed: float = 100.0, interval: tuple[float, float] | None = None, **changes: object
) -> Result:
    low, high = interval or (speed * 0.95, speed * 1.05)
    profile = builders.profile(samples_per_second=speed, interval=(low, high), **changes)
    return builders.profile_result(profile=profile)


def test_the_ratio_is_after_over_before() -> None:
    speedup = compare_results(result(100.0), result(250.0)).speedup

    assert speedup.estimate == pytest.approx(2.5)


def test_the_interval_knows_the_doubts_of_both_and_how_far_processes_differ() -> None:
    certain, doubted = result(100.0, (100.0, 100.0)), result(100.0, (90.0, 110.0))

    none = compare_results(certain, certain).speedup
    one = compare_results(certain, doubted).speedup
    both = compare_results(doubted, doubted).speedup

    chance, width = (math.log(each.high / each.low) for each in (none, one))
    assert chance == pytest.approx(2 * 1.96 * PAIR_SCATTER)
    assert width == pytest.approx(math.hypot(chance, math.log(110 / 90)))
    assert math.log(both.high / both.low) == pytest.approx(math.hypot(width, math.log(110 / 90)))


def test_turning_the_two_round_turns_the_ratio_round() -> None:
    fast, slow = result(200.0, (180.0, 230.0)), result(120.0, (110.0, 125.0))

    there, back = compare_results(fast, slow).speedup, compare_results(slow, fast).speedup

    assert there.low == pytest.approx(1 / back.high)
    assert there.estimate == pytest.approx(1 / back.estimate)


@pytest.mark.parametrize("interval", [(0.0, 200.0), (math.nan, math.nan), (50.0, math.inf)])
def test_an_interval_without_an_end_is_no_regression(interval: tuple[float, float]) -> None:
    comparison = compare_results(result(200.0), result(100.0, interval))

    assert comparison.speedup.high == math.inf
    assert not comparison.is_slower(5)
    json.dumps(plain(comparison), allow_nan=False)


@pytest.mark.parametrize("speed", [0.0, math.nan])
def test_a_run_that_trained_nothing_cannot_be_compared(speed: float) -> None:
    with pytest.raises(UsageError, match="second result, of photos, has no speed"):
        compare_results(result(100.0), result(speed))


def test_results_of_different_programs_are_refused() -> None:
    other = builders.target(name="other", path="/other.py", source_sha256="0" * 64)

    with pytest.raises(UsageError, match=f"different programs: {builders.PROGRAM} and /other.py"):
        compare_results(result(), builders.profile_result(target=other))


@pytest.mark.parametrize("name", ["photos", "photos_tuned"])
def test_a_program_that_was_changed_or_tuned_is_compared_and_its_change_is_said(name: str) -> None:
    path = f"/home/ada/project/{name}.py"
    changed = builders.target(name=name, path=path, source_sha256="0" * 64)

    (said,) = compare_results(
        builders.profile_result(), builders.profile_result(target=changed)
    ).differences

    assert said.startswith("the source differs")


def test_a_slower_run_among_other_programs_is_no_regression() -> None:
    taken = Doubt(name=PROCESSORS_TAKEN, evidence="In 4 of 6 windows.", advice="")

    comparison = compare_results(result(200.0), result(100.0, doubts=(taken,)))

    assert not comparison.is_slower(5)
    assert "did not have after: measure it again" in comparison.differences[0]


def test_phases_are_paired_in_their_order_and_the_unseen_ones_are_none() -> None:
    before = result(step_seconds=0.1, phases={"data": 0.5, "other": 0.5})
    after = result(step_seconds=0.2, phases={"copy": 0.25, "data": 0.5, "other": 0.25})

    pairs = compare_results(before, after).phases

    assert [(pair.phase, pair.before_seconds, pair.after_seconds) for pair in pairs] == [
        ("data", 0.05, 0.1),
        ("copy", None, 0.05),
        ("other", 0.05, 0.05),
    ]


def test_equal_runs_differ_in_nothing() -> None:
    assert compare_results(result(), result()).differences == ()


def test_each_difference_of_machine_program_and_batch_is_named() -> None:
    before, own = builders.profile_result(), builders.seen().loader
    data = own.dataset
    machine = builders.machine(
        device_name="NVIDIA H200",
        cores=16,
        versions={"python": "3.11.9", "torch": "2.14.0", "autotune": "0.1.0", "cuda": "13.0"},
    )
    after = builders.profile_result(
        target=builders.target(arguments=()),
        profile=builders.profile(
            machine=machine,
            seen=builders.seen(samples_per_step=64.0, loader=replace(own, dataset_length=9)),
        ),
    )

    comparison = compare_results(before, after)

    assert not comparison.same_machine
    assert comparison.differences == (
        "another program's arguments: --epochs 3 before, none after",
        (
            "another machine: AMD EPYC 7763 64-Core Processor with 2 cores before, "
            "NVIDIA H200 with 16 cores after"
        ),
        "another cuda: none before, 13.0 after",
        "another torch: 2.13.0 before, 2.14.0 after",
        f"another dataset: {data} of {own.dataset_length:,} before, {data} of 9 after",
        "another batch: 32 samples a step before, 64 samples a step after",
    )


def test_what_is_compared_is_what_both_have() -> None:
    found, slow = builders.search_result(), builders.profile(samples_per_second=90.0)
    slower_before = builders.search_result(profile=slow)

    both = compare_results(found, slower_before)
    one = compare_results(builders.no_gain_result(profile=found.profile), slower_before)

    assert (both.compared, both.speedup.estimate) == ("tuned", 1.0)
    assert both.speedup.low < 1 < both.speedup.high
    assert one.compared == "as it is"
    assert one.speedup.estimate == pytest.approx(90 / found.profile.samples_per_second)


def test_the_tuned_speed_is_that_of_a_search() -> None:
    comparison = compare_results(builders.profile_result(), builders.search_result())

    assert comparison.before.tuned is None
    assert comparison.before.tuned_samples_per_second is None
    assert comparison.after.tuned == builders.verdict().speedup
    assert comparison.after.tuned_samples_per_second == 379.8
