import re
from dataclasses import replace
from typing import Any

import pytest

from autotune.outputs.report import render
from autotune.outputs.speeds import (
    counted_by_shape,
    earned_back,
    handed_back,
    in_turns,
    longer_start,
    patch_alone,
    timed,
)
from autotune.result import Cost
from autotune.verdict import Ratio
from tests import builders


def test_a_patch_that_was_withdrawn_was_not_handed_back() -> None:
    result = builders.search_result()
    assert result.verdict is not None and result.verdict.delivered is not None
    delivered = handed_back(result)
    withdrawn = handed_back(replace(result, patch=""))
    assert delivered is not None and withdrawn is not None
    assert delivered[0] == result.verdict.delivered.samples_per_second
    assert withdrawn[0] == result.verdict.tuned_samples_per_second
    assert delivered[0] != withdrawn[0]


def test_a_patch_that_lacks_settings_is_told_beside_the_gain_of_all() -> None:
    result = builders.search_result()
    said = patch_alone(result)
    assert "without micro_batches, precision, came out 2.11×" in said
    without_patch = patch_alone(replace(result, patch=""))
    assert without_patch and "the patch" not in without_patch
    in_it = tuple(edit for edit in result.edits if edit.status != "refused")
    assert patch_alone(replace(result, edits=in_it)) == ""
    assert patch_alone(builders.no_gain_result(edits=result.edits)) == ""
    assert said.split(";")[0] in render(result)


def test_the_emitted_program_that_took_the_turns_is_shown_once() -> None:
    both = builders.verdict()
    assert list(in_turns(both)) == ["baseline", "tuned", "delivered"]
    same = {**both.turns, "tuned": both.turns["delivered"]}
    once = replace(both, turns=same)
    assert list(in_turns(once)) == ["baseline", "delivered"]
    assert list(in_turns(replace(once, delivered=None))) == ["baseline", "tuned"]

    page = render(builders.search_result(verdict=once))
    assert page.count("Patched program</th>") == 1 + len(same["delivered"])
    assert "Tuned</th>" not in page.partition("Before and after")[2].partition("The curves")[0]


def test_it_is_told_in_how_many_turns_processes_and_steps_a_gain_was_timed() -> None:
    profile, several = builders.profile(), builders.verdict()
    steps = "some [0-9,]+ steps of it as it is"
    assert re.fullmatch(
        f"in 8 turns of each program by 2 sets of processes, in each {steps}",
        timed(several, profile),
    )
    alone = timed(replace(several, rounds=(8,)), profile)
    assert re.fullmatch(f"in 8 turns of each program by one set of processes, {steps}", alone)
    assert timed(replace(several, turns={}), profile) == ""


def test_a_rough_gain_of_few_processes_is_told_with_why_it_is() -> None:
    rough = replace(builders.verdict(), speedup=Ratio(estimate=1.8, low=1.2, high=2.6))
    why = "the interval is wide since processes of one program differ"
    assert timed(rough, builders.profile()).endswith(why)
    assert why not in timed(replace(rough, rounds=(3, 3, 2)), builders.profile())
    assert why not in timed(builders.verdict(), builders.profile())


def test_another_speed_in_turns_than_in_the_profile_is_told() -> None:
    slower = builders.verdict(baseline_samples_per_second=150.0)
    assert timed(slower, builders.profile()).endswith(
        "the program as it is had 180 samples/s when it was profiled, and 150 samples/s here"
    )


@pytest.mark.parametrize(
    ("steps", "length", "said"),
    [
        (660, 63, "660 steps of training (10 epochs)"),
        (100, 63, "100 steps of training"),
        (660, None, "660 steps of training"),
        (None, 63, ""),
    ],
)
def test_what_pays_for_a_search_is_told_in_epochs_too(
    steps: int | None, length: int | None, said: str
) -> None:
    seen = builders.seen()
    assert seen.loader is not None
    profile = builders.profile(seen=replace(seen, loader=replace(seen.loader, length=length)))
    cost = Cost(seconds=61.8, trials=11, break_even_steps=steps)
    assert earned_back(builders.search_result(profile=profile, cost=cost)) == said


def test_samples_are_said_to_be_counted_by_shape_where_no_loader_was_seen() -> None:
    def counted(**changes: Any) -> str:
        return counted_by_shape(builders.profile(seen=builders.seen(**changes)))

    assert counted() == ""
    assert "a step counts as 50 samples" in counted(loader=None, samples_per_step=50.0)
    assert "a step counts as 1 sample," in counted(loader=None, samples_per_step=1.0)
    assert "a step counts as 4 samples" in counted(loader=None, models=(), samples_per_step=4.0)
    assert "given before each backward pass" in counted(loader=None)
    assert "loader" not in counted(loader=None), "one may have been seen that is gone"

    by_shape = builders.profile(seen=builders.seen(loader=None))
    said = counted_by_shape(by_shape)
    assert said in render(builders.profile_result(profile=by_shape))
    assert said not in render(builders.profile_result())


@pytest.mark.parametrize("compiled", ["off", "default"])
@pytest.mark.parametrize("seconds", [0.4, 40.4])
def test_a_longer_start_is_told_and_what_of_compiling_it_leaves_out(
    seconds: float, compiled: str
) -> None:
    cost = Cost(seconds=61.8, trials=11, break_even_steps=660, start_seconds=seconds)
    verdict = builders.verdict(config={"compile": compiled})
    result = builders.search_result(cost=cost, verdict=verdict)
    said = longer_start(result)
    assert ("a start that takes 40.4 s longer" in said) is (seconds > 1)
    assert ("where the model is evaluated is not counted" in said) is (compiled != "off")
    assert f"(10 epochs){said}" in render(result)
