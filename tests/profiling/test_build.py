"""Shares of a step, where the program's own thread draws its batches."""

from dataclasses import replace
from typing import Any

import pytest

from autotune.profiling.build import HOOK_SECONDS_PER_STEP, build_profile
from autotune.profiling.course import doubts_of_course
from autotune.profiling.profile import Profile
from autotune.workload.seen import SeenLoader
from autotune.workload.window import AS_IS, REPLAY_DEVICE
from tests import builders

COMPUTING = {"forward": 0.2, "backward": 0.2, "optimizer": 0.1}  # of a second


def profile(*, replayed: float, changes: dict[str, Any] | None = None, **of_loader: Any) -> Profile:
    """Of a program that takes 10 samples/s, and `replayed` where batches cost nothing."""
    seen = replace(builders.seen(), **(changes or {}))
    assert seen.loader is not None
    loader: SeenLoader = replace(seen.loader, **of_loader)
    as_is = builders.window(10.0, steps=1, samples=10, seconds=1.0, phases=COMPUTING)
    alone = replace(as_is, mode=REPLAY_DEVICE, samples=round(10 * replayed / 10.0))
    return build_profile(
        machine=builders.machine(),
        seen=replace(seen, loader=loader),
        windows={AS_IS: (as_is,), REPLAY_DEVICE: (alone,)},
        reasons={},
        interval=(9.0, 11.0),
        startup_seconds=1.0,
        probes={},
        budget_seconds=60.0,
        ended_early=False,
    )


@pytest.mark.parametrize(
    ("replayed", "data", "other"),
    [(10.0, 0.0, 0.5), (14.0, 2 / 7, 0.5 - 2 / 7), (40.0, 0.75, 0.0)],
    ids=["it keeps up", "some of it", "it slows down computing too"],
)
def test_what_goes_away_with_the_batches_was_waiting_for_them(
    replayed: float, data: float, other: float
) -> None:
    found = profile(replayed=replayed, threaded=True)
    assert found.phases["data"] == pytest.approx(data)
    assert found.phases["other"] == pytest.approx(other)
    assert sum(found.phases.values()) == pytest.approx(1.0)
    assert "data" not in found.not_measured


def test_without_such_a_thread_the_rest_is_the_program_s_own() -> None:
    found = profile(replayed=40.0)
    assert found.phases["other"] == pytest.approx(0.5)
    assert "data" in found.not_measured


def test_without_a_module_to_watch_the_rest_may_be_its_forward_pass() -> None:
    found = profile(replayed=40.0, changes={"models": ()})
    assert found.phases["forward"] == pytest.approx(0.7)
    assert found.phases["other"] == 0.0
    doubts = doubts_of_course(found.seen, ended_early=False)
    assert [each.name for each in doubts] == ["no module"]


def test_without_a_backward_pass_the_rest_may_be_what_gradients_cost() -> None:
    found = profile(replayed=40.0, changes={"backwards_per_step": 0.0})
    assert found.phases["forward"] == pytest.approx(0.7)
    assert found.phases["other"] == 0.0


def test_what_watching_costs_is_a_cpu_s_figure() -> None:
    assert profile(replayed=10.0).overhead_share == pytest.approx(HOOK_SECONDS_PER_STEP)
    assert profile(replayed=10.0, changes={"device": "cuda"}).overhead_share is None


@pytest.mark.parametrize("replayed", [13.0, 5.0], ids=["shorter than most", "longer than most"])
def test_one_batch_of_several_lengths_says_nothing_of_what_loading_could_gain(
    replayed: float,
) -> None:
    for shapes, told in ((2, False), (40, True)):
        compute = profile(replayed=replayed, changes={"shapes": shapes}).ceiling("compute")
        assert compute is not None
        assert ("many shapes" in compute.reason) is told
        assert (compute.max_gain is None) is (told or replayed < 10.0)


def test_of_batches_that_a_thread_draws_nothing_else_says_what_they_cost() -> None:
    found = profile(replayed=14.0, changes={"shapes": 40}, threaded=True)
    assert found.phases["data"] == pytest.approx(2 / 7)
    compute = found.ceiling("compute")
    assert compute is not None and compute.max_gain == pytest.approx(1.4)
