"""How a program trains is said where its figures mislead without it."""

from dataclasses import replace
from typing import Any

import pytest

from autotune.outputs import wording
from autotune.profiling.course import (
    doubts_of_course,
    doubts_of_the_clock,
    doubts_of_trackers,
    doubts_of_validation,
)
from autotune.profiling.later import doubts_of_last_batch, doubts_of_later_steps
from autotune.profiling.profile import FILLING, FIRST_EPOCH, Doubt
from autotune.source.loops.by_the_clock import ByTheClock
from autotune.verdict.validations import Validations
from autotune.workload.seen import SeenTracker
from tests import builders


def names(*, ended_early: bool = False, length: int | None = 63, **changes: Any) -> list[str]:
    seen = builders.seen(**changes)
    assert seen.loader is not None
    seen = replace(seen, loader=replace(seen.loader, length=length))
    return [doubt.name for doubt in doubts_of_course(seen, ended_early=ended_early)]


def test_an_ordinary_training_has_none() -> None:
    assert names() == names(length=None) == names(shapes=2) == []


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"ended_early": True}, "short run"),
        ({"length": 1}, "one step an epoch"),
        ({"shapes": 40}, "changing shapes"),
        ({"models": ()}, "no module"),
        ({"backwards_per_step": 0.0}, "no backward"),
        ({"passed_loops": 1}, "later loop"),
        ({"gpus": 2}, "several GPUs"),
        ({"passed_loops": 1, "taking_turns": True}, "loops in turns"),
        ({"passes": ((0, 1), (2000, 2))}, "more passes"),
        ({"passes": ((0, 1), (40, 2), (80, 3))}, "more passes"),
    ],
)
def test_each_course_has_its_doubt(changes: dict[str, Any], name: str) -> None:
    assert names(**changes) == [name]


@pytest.mark.parametrize(("share", "told"), [(0.1, False), (1.0, True)])
def test_of_one_step_an_epoch_only_what_is_in_each_counts(share: float, told: bool) -> None:
    seen = builders.seen(evaluated_share=share)
    assert seen.loader is not None
    seen = replace(seen, loader=replace(seen.loader, length=1))
    (doubt,) = doubts_of_course(seen, ended_early=False)
    assert ("validation" in doubt.evidence) is told


@pytest.mark.parametrize(
    "passes",
    [
        ((0, 4),),
        ((0, 4), (20, 2), (21, 4)),
        ((0, 1), (1, 2)),
        ((0, 1), (30, 2), (31, 3)),
        ((0, 2), (30, 1)),
    ],
)
def test_passes_that_come_and_go_are_of_no_course(passes: tuple[tuple[int, int], ...]) -> None:
    assert names(passes=passes) == []


@pytest.mark.parametrize(
    ("loader", "norms", "said"),
    [
        ({}, 1, True),
        ({}, 0, False),
        ({"dataset_length": 2018}, 1, False),
        ({"drop_last": True, "length": 63}, 1, False),
        ({"custom_batches": True, "batch_size": None}, 1, False),
        ({"length": 12}, 1, False),  # of a sampler that gives fewer
        ({"epochs": 2}, 1, False),
    ],
)
def test_a_last_batch_of_one_that_batch_norm_may_refuse_is_told(
    loader: dict[str, Any], norms: int, said: bool
) -> None:
    given = {"dataset_length": 2017, "length": 64, "batch_size": 32} | loader
    seen = builders.seen()
    assert seen.loader is not None
    seen = replace(
        seen,
        loader=replace(seen.loader, **given),
        models=tuple(replace(each, flat_norms=norms) for each in seen.models),
    )
    found = doubts_of_last_batch(seen)
    assert [each.name for each in found] == (["last batch of one"] if said else [])
    assert all("2,017 = 63 batches of 32 and 1" in each.evidence for each in found)


@pytest.mark.parametrize(
    ("others", "epochs", "validations", "evaluated", "said"),
    [
        (0, 1, 0, "", ""),
        (1, 1, 0, "", "has another loader"),
        (2, 1, 0, "", "has 2 other loaders"),
        (1, 2, 0, "", ""),
        (1, 1, 1, "", ""),
        (0, 6, 0, "train.py:40", "run a model between steps without training it (train.py:40)"),
        (1, 1, 0, "train.py:40", "run a model between steps without training it (train.py:40)"),
        (0, 6, 1, "train.py:40", ""),
    ],
)
def test_what_comes_between_steps_and_did_not_is_said_not_to_be_seen(
    others: int, epochs: int, validations: int, evaluated: str, said: str
) -> None:
    seen = builders.seen(other_loaders=others)
    assert seen.loader is not None
    seen = replace(seen, loader=replace(seen.loader, epochs=epochs))
    windows = [builders.window(180.0), builders.window(180.0, validations=validations)]
    found = doubts_of_validation(seen, windows, evaluated=evaluated)
    assert bool(found) == bool(said)
    assert said in "".join(each.evidence for each in found)
    assert said in wording.outside(builders.profile(doubts=found))
    in_each_step = replace(seen, evaluated_share=0.98)
    assert not doubts_of_validation(in_each_step, windows[:1], evaluated=evaluated)


@pytest.mark.parametrize(("share", "told"), [(0.0, True), (0.04, False)])
def test_validations_of_an_unknown_share_do_not_hide_that_none_was_timed(
    share: float, told: bool
) -> None:
    """Short ones were seen past the first steps: how much of a whole run they take was not."""
    found = doubts_of_validation(builders.seen(), [builders.window(180.0)], evaluated="train.py:40")
    short = Validations(own_seconds=0.5, tuned_seconds=0.2, share=share, whole=2.1, short=True)
    verdict = builders.verdict(validations=short)
    said = wording.outside(builders.profile(doubts=found), verdict)
    assert ("a whole run may gain less" in said) is told


def test_of_a_program_without_a_loader_no_end_of_an_epoch_is_said_to_be_missing() -> None:
    seen = replace(builders.seen(other_loaders=1), loader=None)
    (doubt,) = doubts_of_validation(seen, [builders.window(180.0)])
    assert "it was not seen to come to what that is for while it was timed" in doubt.evidence


def test_a_tracker_that_was_off_is_named_on_the_profile_and_beside_the_verdict() -> None:
    assert doubts_of_trackers(builders.seen()) == ()
    own = (
        SeenTracker(name="W&B", calls_per_step=1.0),
        SeenTracker(name="Neptune", calls_per_step=0.0),
    )
    (doubt,) = doubts_of_trackers(builders.seen(trackers=own))
    assert doubt.name == "tracker off"
    assert doubt.evidence == (
        "W&B (1 call a step) and Neptune were kept from sending while it was timed: what logging "
        "costs is in these figures in part at the most."
    )
    profile = builders.profile(doubts=(doubt,))
    assert doubt.evidence in wording.outside(profile)
    assert doubt.evidence not in wording.outside(builders.profile())


def test_what_the_clock_ends_is_said_with_its_line() -> None:
    assert not doubts_of_the_clock(ByTheClock())
    end, rate = doubts_of_the_clock(ByTheClock(end="train.py:3", rate="train.py:5"))
    for doubt, place in ((end, "(train.py:3)"), (rate, "(train.py:5)")):
        assert place in doubt.evidence
        assert doubt.advice


_LATER = dict.fromkeys(("thawed", "replaced", "stage", "loader", "samples", "chance", "sizes"), "")


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ({}, []),
        ({"stage": "train.py:7"}, ["later stage"]),
        ({"thawed": "train.py:7", "stage": "train.py:6"}, ["thaws later"]),
        (
            {"thawed": "train.py:7", "replaced": "train.py:7"},
            ["thaws later", "weights replaced"],
        ),
        ({"loader": "train.py:7"}, ["later loader"]),
        ({"samples": "train.py:7"}, ["later samples"]),
        ({"chance": "train.py:7"}, ["moved chance"]),
        ({"sizes": "train.py:7"}, ["other sizes"]),
    ],
)
def test_later_steps_that_are_others_are_told_with_their_line(
    places: dict[str, str], told: list[str]
) -> None:
    doubts = doubts_of_later_steps(**_LATER | places)
    assert [doubt.name for doubt in doubts] == told
    assert all("(train.py:7" in doubt.evidence and doubt.advice for doubt in doubts)
    assert builders.profile(doubts=doubts).changes_later is bool(told)


def test_figures_of_the_first_epoch_alone_say_so_in_the_answer() -> None:
    for name in (FIRST_EPOCH, FILLING):
        doubt = Doubt(name=name, evidence="The dataset keeps what it has read.", advice="Read it.")
        assert builders.profile(doubts=(doubt,)).changes_later
