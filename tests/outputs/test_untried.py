"""What was not tried is not said to gain nothing."""

from dataclasses import replace

import pytest

from autotune.diagnosis import Bottleneck
from autotune.flow.vetting_workers import TOO_LATE
from autotune.measurement.measurement import Failure
from autotune.measurement.ratios import Ratio
from autotune.outputs.report import render
from autotune.outputs.untried import ended, left_untried, loading_stays, no_gain, untried
from autotune.profiling.profile import TOO_FEW_STEPS, Doubt
from autotune.result import Result, SearchFacts
from autotune.trials.space import SkippedKnob
from autotune.trials.trial import BUDGET, DIVERGES, EXHAUSTED, PATIENCE, TRIALS, Ending, Trial
from tests import builders


def searched(*names: str, why: str = PATIENCE, failed: str = "") -> Result:
    """A search for threads and compile that tried so and so, or in which one failed in a way."""
    space = builders.space()
    choices = {"threads": (1, 2), "compile": ("off", "default")}
    own = {"threads": 2, "compile": "off"}
    trials = tuple(
        builders.trial(number, {name: choices[name][0]} if name else {}, 180.0)
        for number, name in enumerate(("", *names))
    )
    if failed:
        outcome = Failure(kind=failed, reason="it did not work")
        trials = (*trials, Trial(number=9, config={"compile": 1}, outcome=outcome, seconds=1.0))
    ending = Ending(why=why, reason="It is over.")
    return builders.no_gain_result(
        space=replace(space, choices=choices, own=own),
        trials=trials,
        search=SearchFacts(key="k", sampler="profile", patience_seconds=3.0, ending=ending),
    )


def test_all_that_was_to_be_searched_was_tried() -> None:
    result = searched("threads", "compile", why=EXHAUSTED)
    assert (no_gain(result), untried(result), left_untried(result)) == ("Nothing to gain", (), "")


def test_what_could_not_be_compared_in_time_is_no_proof_either() -> None:
    result = searched("threads", "compile", why=EXHAUSTED)
    assert result.space is not None
    late = SkippedKnob(knob="num_workers", reason=f"it could not be compared: {TOO_LATE}")
    left = replace(result, space=replace(result.space, skipped=(late,)))
    assert no_gain(left) == "Nothing found to gain in what was tried"


def test_a_gain_that_is_not_excluded_is_not_denied() -> None:
    result = searched("threads", "compile", why=EXHAUSTED)
    for high, said in ((1.11, "Nothing found to gain"), (1.01, "Nothing to gain")):
        ratio = Ratio(estimate=1.005, low=0.93, high=high)
        verdict = builders.verdict(outcome="no_gain", speedup=ratio)
        assert no_gain(replace(result, verdict=verdict)) == said


@pytest.mark.parametrize("why", [BUDGET, TRIALS])
def test_a_search_that_was_cut_short_answers_for_what_it_tried(why: str) -> None:
    result = searched("threads", "compile", why=why)
    assert no_gain(result) == "Nothing found to gain in what was tried"
    assert left_untried(result) == ""


def test_what_takes_too_much_memory_is_no_proof_that_there_is_nothing_to_gain() -> None:
    found = searched("threads", "compile", why=EXHAUSTED)
    assert found.search is not None
    for limit, said in ((300, " within the memory limit"), (400, "")):
        limited = replace(found.search, memory_limit_bytes=limit * builders.MIB)
        answer = no_gain(replace(found, search=limited))
        assert answer == (f"Nothing found to gain{said}" if said else "Nothing to gain")


@pytest.mark.parametrize("why", [PATIENCE, BUDGET, TRIALS])
def test_what_was_left_untried_is_named_and_its_reason_told_where_the_search_ended(
    why: str,
) -> None:
    result = searched("threads", why=why)
    assert no_gain(result) == "Nothing found to gain in what was tried"
    assert left_untried(result) == "Not tried: compile."
    assert result.search and result.search.ending
    assert ended(result) == result.search.ending.reason


@pytest.mark.parametrize(("failed", "left"), [("crashed", ()), ("busy", ("compile",))])
def test_a_trial_that_told_nothing_was_none(failed: str, left: tuple[str, ...]) -> None:
    found = searched("threads", failed=failed)
    assert untried(found) == left
    assert left_untried(found) == ("Tried, but not measured: compile." if left else "")


def test_a_search_without_a_trial_found_nothing_out() -> None:
    result = searched(why=DIVERGES)
    assert (no_gain(result), left_untried(result)) == ("Nothing was tried", "")


def test_a_search_that_gained_says_which_knobs_it_never_turned() -> None:
    found = searched("threads")
    assert ended(found) == "It is over."  # its answer names them
    gained = replace(found, verdict=builders.verdict())
    assert gained.verdict is not None and gained.verdict.outcome == "faster"
    assert ended(gained) == "It is over. Not tried: compile."
    assert found.search is not None
    told = Ending(why=PATIENCE, reason="It is over. compile was not tried: it takes long.")
    assert ended(replace(gained, search=replace(found.search, ending=told))) == told.reason
    assert ended(replace(gained, search=None)) == ""


def test_a_knob_timed_in_too_few_steps_is_named() -> None:
    few = Doubt(name=TOO_FEW_STEPS, evidence="", advice="")
    short = builders.measurement(170.0, doubts=(few,))
    trials = (builders.trial(0, {}, 180.0), builders.trial(1, {"threads": 1}, short))
    found = replace(searched("compile"), trials=(*trials, builders.trial(2, {"compile": 1}, 180.0)))
    steps = sum(window.steps for window in short.windows)
    said = f"Timed in too few steps to tell: threads ({steps} steps)."
    assert left_untried(found) == said
    gained = builders.verdict(config={"compile": 1})
    assert ended(replace(found, verdict=gained)) == f"It is over. {said}"
    told = (*found.trials, builders.trial(3, {"threads": 1}, 190.0))
    assert left_untried(replace(found, trials=told)) == ""
    best = replace(found, trials=(*trials, builders.trial(2, {"compile": 1}, 160.0)))
    assert left_untried(best) == "", "it took turns"


def test_a_loader_that_is_waited_for_and_stays_is_told_why() -> None:
    gained = builders.search_result(
        verdict=builders.verdict(config={"threads": 1}),
        diagnosis=builders.findings(),
        trials=(builders.trial(0, {}, 180.0), builders.trial(1, {"num_workers": 1}, 160.0)),
    )
    assert gained.diagnosis[0].bottleneck == Bottleneck.DATA
    slower = "as it is: with workers the best trial came out slower (160 samples/s against 180"
    assert loading_stays(gained).startswith(slower)
    assert "Loading stays as it is" in render(gained)
    assert gained.space is not None
    own = replace(gained.space, own={**gained.space.own, "num_workers": 4})
    others = "as it is: with other numbers of workers the best trial came out slower (160 samples/s"
    said = loading_stays(replace(gained, space=own))
    assert said.startswith(others) and "without" not in said
    faster = (*gained.trials, builders.trial(2, {"num_workers": 2}, 190.0))
    assert loading_stays(replace(gained, trials=faster)) == ""
    assert gained.space is not None
    refused = SkippedKnob(knob="num_workers", reason="it would tear.")
    torn = replace(gained.space, skipped=(refused,), choices={"threads": (1, 2)})
    assert loading_stays(replace(gained, space=torn)) == "as it is: it would tear"
    partly = replace(torn, choices={"num_workers": (0, 1)})
    assert loading_stays(replace(gained, space=partly)).startswith(slower)
    for changes in (
        {"trials": gained.trials[:1]},
        {"verdict": builders.verdict()},
        {"diagnosis": ()},
    ):
        assert loading_stays(replace(gained, **changes)) == ""
