"""Doubts, from windows as they were seen on two cores."""

from dataclasses import replace

import pytest

from autotune.measurement.doubts import doubts_of, starved
from autotune.workload.window import Window


def window(samples_per_second=1000.0, *, own=1.0, workers=0.0, delayed=0.0, seconds=0.4, **changes):
    given = {
        "mode": "as_is",
        "steps": 40,
        "samples": round(samples_per_second * seconds),
        "seconds": seconds,
        "step_seconds": (seconds / 40,) * 40,
        "cpu_seconds": own * seconds,
        "worker_cpu_seconds": workers * seconds,
        "delayed_seconds": delayed * seconds,
    }
    return Window(**given | changes)


def names(windows, cores=2):
    return [doubt.name for doubt in doubts_of(windows, cores=cores)]


@pytest.mark.parametrize(
    ("own", "workers", "delayed"),
    [
        (0.76, 0.0, 1.17),
        (1.23, 0.0, 0.73),
        (1.05, 0.0, 0.87),
        (1.00, 0.0, 0.64),
        (0.67, 0.0, 0.33),
        (0.76, 0.0, 1.60),
        (0.54, 0.65, 1.24),
    ],
    ids=[
        "large products beside a neighbour",
        "large products beside a niced neighbour",
        "tiny operations beside a neighbour",
        "both threads on one core",
        "one thread between two neighbours",
        "training beside a neighbour and its own worker",
        "training and workers beside a neighbour",
    ],
)
def test_a_run_that_is_kept_from_its_processors_is_starved(own, workers, delayed):
    assert starved(window(own=own, workers=workers, delayed=delayed), cores=2)


@pytest.mark.parametrize(
    ("own", "stolen", "expected"),
    [(0.98, 0.75, True), (0.75, 1.15, True), (1.13, 0.36, False), (1.45, 0.0, False)],
)
def test_a_run_whose_processors_the_host_took_is_starved(own, stolen, expected):
    taken = window(own=own, stolen_seconds=0.4 * stolen)
    assert starved(taken, cores=2) is expected
    doubts = doubts_of([taken] * 6, cores=2)
    said = " ".join(f"{doubt.evidence} {doubt.advice}" for doubt in doubts)
    assert ("the host of this virtual machine had most of the rest" in said) is expected


@pytest.mark.parametrize(
    ("own", "workers", "delayed"),
    [
        (2.00, 0.0, 0.01),
        (1.00, 0.0, 0.00),
        (1.00, 0.0, 0.07),
        (0.00, 0.0, 0.002),
        (0.03, 0.0, 0.01),
        (0.95, 0.85, 1.52),
        (0.72, 0.71, 0.60),
        (0.14, 1.80, 0.38),
    ],
    ids=[
        "two threads alone",
        "one thread alone",
        "tiny operations on one core, which is all they need",
        "a loader that sleeps",
        "a loader that sleeps, and wakes late",
        "two workers that take all cores with the training",
        "one worker that delays the training",
        "workers that decode",
    ],
)
def test_a_run_that_is_slow_by_itself_is_not_starved(own, workers, delayed):
    assert not starved(window(own=own, workers=workers, delayed=delayed), cores=2)


@pytest.mark.parametrize(
    ("own", "workers", "delayed", "others", "why"),
    [
        # A pool of four threads that sleep and wake together; 32 workers that do.
        (0.52, 0.0, 0.27, 0.02, ""),
        (0.60, 1.00, 1.20, 0.03, ""),
        # Nobody else ran, and a core was idle all the same.
        (1.00, 0.0, 0.64, 0.03, "lay on one core"),
        (0.76, 0.0, 1.17, 1.20, "other programs had most of the rest"),
        (0.67, 0.0, 0.33, 1.30, "other programs had most of the rest"),
        # Others ran for a moment, and its threads waited longer than that.
        (0.70, 0.0, 0.50, 0.10, ""),
    ],
)
def test_only_what_others_used_was_taken_by_them(own, workers, delayed, others, why):
    taken = window(own=own, workers=workers, delayed=delayed, others_seconds=0.4 * others)
    assert starved(taken, cores=2) is bool(why)
    doubts = [each for each in doubts_of([taken] * 6, cores=2) if each.name == "processors taken"]
    assert all(why in doubt.evidence for doubt in doubts)


def test_who_took_them_is_not_said_where_nobody_knows_what_others_used():
    (doubt, *_) = doubts_of([window(own=0.76, delayed=1.17, others_seconds=None)] * 6, cores=2)
    assert doubt.evidence.endswith("or threads of its own, is not known.")


@pytest.mark.parametrize(("threads", "others", "expected"), [(2, 0.03, True), (8, 0.03, False)])
def test_more_threads_than_cores_wait_for_one_another(threads, others, expected):
    taken = window(own=1.3, delayed=3.0, others_seconds=0.4 * others, threads=threads)
    assert starved(taken, cores=2) is expected
    beside = window(own=1.0, delayed=3.0, others_seconds=0.4, threads=threads)
    assert starved(beside, cores=2)


@pytest.mark.parametrize(
    ("threads", "delayed", "beside_fewer", "expected"),
    [
        (2, 0.24, True, True),  # a neighbour with the lowest claim
        (2, 0.24, False, False),
        (2, 0.02, True, False),  # a quiet machine
        (1, 0.24, True, False),
    ],
)
def test_threads_on_all_cores_are_starved_by_less_where_fewer_are_beside(
    threads, delayed, beside_fewer, expected
):
    own = 1.76 if threads == 2 else 1.0
    taken = window(own=own, delayed=delayed, others_seconds=0.4 * delayed, threads=threads)
    assert starved(taken, cores=2, beside_fewer=beside_fewer) == expected


def test_an_empty_window_is_not_starved():
    assert not starved(Window(mode="as_is", steps=0, samples=0, seconds=0.0), cores=2)


def test_a_steady_run_leaves_no_doubt():
    assert names([window(each) for each in (1000, 1010, 990, 1005, 995, 1000)]) == []


def test_taken_processors_are_named_with_the_figures():
    taken = window(200.0, own=0.8, delayed=1.2)
    (doubt,) = doubts_of([window(), window(), window(), window(), window(), taken], cores=2)
    assert doubt.name == "processors taken"
    assert "1 of 6 windows" in doubt.evidence
    assert "0.8 of the 2.0 processors" in doubt.evidence
    assert doubt.advice


def test_a_run_that_was_never_given_its_processors_is_not_said_to_be_short():
    assert names([window(200.0, own=0.8, delayed=1.2)] * 4) == ["processors taken"]


def test_windows_that_differ_are_unstable():
    differing = [window(each) for each in (500, 15000, 700, 13000, 600, 12000)]
    assert names(differing) == ["unstable"]
    evidence = doubts_of(differing, cores=2)[0].evidence
    assert "500 to 15,000 samples/s; its speed is known to ±" in evidence


def test_others_are_not_blamed_for_what_differs_while_they_rest():
    rates = (500, 15000, 700, 13000, 600, 12000)
    (alone,) = doubts_of([window(each, others_seconds=0.02) for each in rates], cores=2)
    assert "next to nothing" in alone.evidence and "Its steps differ, or" in alone.advice
    for other in (
        {"others_seconds": 0.1},
        {"others_seconds": None},
        {"others_seconds": 0.0, "stolen_seconds": 0.1},
    ):
        (doubt,) = doubts_of([window(each, **other) for each in rates], cores=2)
        assert doubt.advice.startswith("Stop other programs")


def test_a_run_that_speeds_up_read_cold_files_and_is_not_called_unstable_too():
    rising = [window(each) for each in (400, 420, 600, 800, 1000, 1010)]
    assert names(rising) == ["sped up"]


def test_one_slow_window_at_its_beginning_is_no_speeding_up():
    rates = (682, 403, 777, 777, 788, 746, 749, 740)
    assert "sped up" not in names([window(each) for each in rates])
    assert "slowed down" not in names([window(each) for each in reversed(rates)])


def test_a_run_that_slows_down_has_more_to_come_than_was_timed():
    falling = [window(each) for each in (1010, 1000, 800, 600, 420, 400)]
    assert names(falling) == ["slowed down"]
    assert "It slowed down 2.5×" in doubts_of(falling, cores=2)[0].evidence
    # Where slow windows come among fast ones it is no change for good.
    turning = [window(each) for each in (1010, 990, 400, 700, 700, 700, 300, 500, 310)]
    assert names(turning) == ["unstable"]


def test_few_steps_are_doubted():
    few = [window(steps=2, step_seconds=(0.2, 0.2)) for _ in range(3)]
    assert names(few) == ["too few steps"]
    assert "6 steps were" in doubts_of(few, cores=2)[0].evidence


def test_bursts_are_doubted_only_while_there_are_few():
    burst = window(step_seconds=(0.001,) * 39 + (0.361,))
    assert names([burst] * 6) == ["stepwise"]
    assert "6 of 240 steps hold 90 % of the time" in doubts_of([burst] * 6, cores=2)[0].evidence
    for given, more in ((burst, "more of them"), (window(workers=1.0), "more bursts of batches")):
        slow = replace(given, step_seconds=burst.step_seconds)
        assert f"so that {more} are timed" in doubts_of([slow] * 6, cores=2)[0].advice
    assert names([burst] * 12) == []


def test_nothing_timed_is_too_few_steps():
    assert names([]) == ["too few steps"]
