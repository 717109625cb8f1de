"""Memory that is given back and taken again in each step is counted, and said."""

import math
from pathlib import Path

import pytest

from autotune.knobs.knob import Config
from autotune.measurement.measurement import Measurement
from autotune.measurement.ratios import PAIR_SCATTER
from autotune.measurement.readings.faults import (
    NOTABLE_FAULTS,
    calm_share,
    doubts_of_faults,
    scatter_of,
    told_of_keeping,
    unknown_of,
)
from autotune.workload.window import Window
from tests import builders
from tests.workload.programs import run, steps, window_of

PROGRAM = """
import mmap
import torch
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(100):
    taken = mmap.mmap(-1, {pages} * mmap.PAGESIZE)  # as glibc takes what is large
    for page in range({pages}):
        taken[page * mmap.PAGESIZE] = 1
    taken.close()
    optimizer.zero_grad()
    loss = (weight + 1).square().sum()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("pages", [10, 500])
def test_pages_that_are_taken_anew_are_counted(pages: int, tmp_path: Path) -> None:
    window = window_of(run(PROGRAM.format(pages=pages), steps(10), steps(40), folder=tmp_path))
    assert window.page_faults is not None
    assert 40 * pages <= window.page_faults < 40 * (pages + 100)


@pytest.mark.parametrize(
    ("a_second", "said"), [(0, False), (0.9 * NOTABLE_FAULTS, False), (2 * NOTABLE_FAULTS, True)]
)
def test_many_are_told(a_second: float, said: bool) -> None:
    windows = [builders.window(seconds=2.0, page_faults=int(2 * a_second)) for _ in range(3)]
    doubts = doubts_of_faults(windows)
    assert bool(doubts) is said
    assert all(f"{a_second:,.0f} pages of memory a second" in each.evidence for each in doubts)


def test_what_trials_that_keep_their_memory_took_is_told_instead_of_what_they_may_take() -> None:
    def timed(kept: bool, faults: int | None) -> tuple[Config, Measurement]:
        windows = (builders.window(seconds=2.0, page_faults=faults),)
        seen = builders.seen(keeps_freed_memory=True)  # by itself, without the setting
        config: Config = {"keep_freed_memory": True} if kept else {"threads": 1}
        return config, builders.measurement(180.0, windows=windows, seen=seen)

    (doubt,) = doubts_of_faults([builders.window(seconds=2.0, page_faults=70_000)])
    profile = builders.profile(doubts=(doubt,))
    assert told_of_keeping(profile, [timed(False, 90_000), timed(True, None)]) == profile
    tried = [timed(True, 340), timed(True, 80), timed(False, 900)]
    (told,) = told_of_keeping(profile, tried).doubts
    assert "took 170 at most" in told.advice
    assert (told.name, told.evidence) == (doubt.name, doubt.evidence)


def test_processes_that_take_memory_anew_are_expected_to_differ_by_more() -> None:
    calm, busy, unknown = (
        [builders.window(seconds=2.0, page_faults=faults)] for faults in (0, 400_000, None)
    )
    assert scatter_of(calm, unknown) == PAIR_SCATTER
    assert scatter_of(calm, busy) == pytest.approx(math.hypot(PAIR_SCATTER, 0.1))
    assert scatter_of(busy, busy) == pytest.approx(math.hypot(PAIR_SCATTER, 0.1, 0.1))


def test_nothing_is_said_where_nobody_counted() -> None:
    assert doubts_of_faults([builders.window(page_faults=None)]) == ()


def taking(*windows: tuple[float, int]) -> list[Window]:
    """Windows of ten steps, by their seconds and how many pages they took."""
    return [
        builders.window(steps=10, seconds=seconds, page_faults=pages) for seconds, pages in windows
    ]


def test_a_step_is_told_as_it_is_while_little_memory_is_taken_anew() -> None:
    ended = taking((0.2, 36_000), (0.2, 30_000), (0.1, 0), (0.1, 100))
    assert calm_share(ended) == pytest.approx(0.5)
    (doubt,) = doubts_of_faults(ended)
    assert "a step took 50 % less" in doubt.evidence
    assert calm_share(taking((0.2, 36_000), (0.1, 0), (0.2, 30_000))) == pytest.approx(0.5)
    assert calm_share(taking((0.2, 36_000), (0.1, 15_000), (0.2, 30_000))) == 1.0
    assert calm_share(taking((0.2, 3_000), (0.1, 0))) == 1.0
    assert calm_share(taking((0.1, 36_000), (0.2, 0))) == 1.0
    little_less = taking((0.2, 19_000 * 2), (0.199, 0), (0.2, 0))
    assert calm_share(little_less) == pytest.approx(0.9975)
    assert "For a while" not in "".join(each.evidence for each in doubts_of_faults(little_less))
    once = taking((0.1, 3_000), *[(0.05, 0)] * 12)  # what no search would try to end
    assert calm_share(once) == pytest.approx(0.5) and doubts_of_faults(once) == ()
    assert calm_share([]) == calm_share([builders.window(page_faults=None)]) == 1.0


@pytest.mark.parametrize(
    ("timed", "left"),
    [
        (taking((0.2, 33_000)), 0.5),
        (taking((0.2, 60_000)), 0.5),  # no more than was seen
        (taking((0.15, 16_525), (0.15, 16_525)), 1 / 1.5),
        (taking((0.1, 40)), 1.0),
        (taking((0.2, 33_000), (0.1, 100)), 1 / 1.5),
        ([builders.window(page_faults=None)], 0.5),
    ],
)
def test_what_is_left_of_a_step_that_was_timed_goes_by_what_it_took(
    timed: list[Window], left: float
) -> None:
    ended = taking((0.2, 36_000), (0.2, 30_000), (0.1, 0), (0.1, 100))
    assert calm_share(ended, timed) == pytest.approx(left, rel=0.002)


def test_what_both_take_anew_is_no_difference_and_what_one_takes_may_be_none_later() -> None:
    none, much = ([builders.window(seconds=2.0, page_faults=faults)] for faults in (0, 400_000))
    assert unknown_of(none, none) == unknown_of(much, much) == 0.0
    assert unknown_of(much, none) == unknown_of(none, much) == pytest.approx(0.1)
    assert unknown_of([builders.window(page_faults=None)], none) == 0.0
