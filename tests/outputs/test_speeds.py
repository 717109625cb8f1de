import re
from dataclasses import replace

from autotune.outputs.report import render
from autotune.outputs.speeds import handed_back, in_turns, patch_alone, timed
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
