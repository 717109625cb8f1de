import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune import flow
from autotune.errors import MeasurementError, UsageError
from autotune.knobs.knob import Semantics
from autotune.outputs import EARLIER, NotWrittenError
from autotune.outputs.chosen import chosen
from autotune.outputs.document import from_document, to_document
from autotune.outputs.report import render
from autotune.outputs.room import TakenError
from autotune.profiling.profile import TOO_FEW_STEPS, Doubt
from autotune.result import Cost, Rematch, Result
from autotune.trials.trial import Ending
from autotune.verdict import Delivered, Ratio
from autotune.verdict.validations import Validations
from autotune.workload.program.target import RECIPE
from tests import builders
from tests.cli.conftest import MadeUpFlow, Run
from tests.outputs.test_apply import AFTER, BEFORE, searched


def test_the_verdict_is_one_sentence(run: Run, made_up: MadeUpFlow) -> None:
    answer = run("search", "photos.py")

    assert answer.exit_code == 0
    assert "2.12× faster (95 % interval 1.98 to 2.27), same training" in answer.stdout.splitlines()


def test_a_gain_is_of_the_steps_that_came_where_later_ones_are_others(
    run: Run, made_up: MadeUpFlow
) -> None:
    cut = Doubt(name="weights replaced", evidence="They are cut (model.py:36).", advice="")
    made_up.result = builders.search_result(profile=builders.profile(doubts=(cut,)))

    said = (
        "2.12× faster (95 % interval 1.98 to 2.27) in the steps that came; later ones may be others"
    )
    assert f"{said}, same training" in " ".join(run("search", "photos.py").stdout.split())
    assert "as fast in the steps that came" in render(made_up.result)


def test_steps_that_a_scaler_left_out_are_said(run: Run, made_up: MadeUpFlow) -> None:
    parity = builders.parity(skipped_steps=3)
    made_up.result = builders.search_result(verdict=builders.verdict(parity=parity))

    said = "its GradScaler left out 3 steps (overflow)"
    assert said in " ".join(run("search", "photos.py").stdout.split())
    assert said in render(made_up.result)


@pytest.mark.parametrize(
    ("precision", "told"), [("bf16", True), ("tf32", False), ("fp32", False), (None, False)]
)
def test_that_predictions_are_rounded_is_said_beside_the_same_training(
    run: Run, made_up: MadeUpFlow, precision: str | None, told: bool
) -> None:
    evidence = "In bf16 predictions are rounded to steps of 0.5."
    doubt = Doubt(name="rounded predictions", evidence=evidence, advice="")
    config = {"threads": 1} | ({"precision": precision} if precision else {})
    made_up.result = builders.search_result(
        verdict=builders.verdict(config=config),
        space=replace(builders.space(), doubts={"precision": doubt}),
    )

    shown = " ".join(run("search", "photos.py").stdout.split())
    assert (f"noise allows 6.1 %. {evidence}" in shown) is told
    assert (f"{evidence}</small>" in render(made_up.result)) is told


@pytest.mark.parametrize(
    ("band", "reserved"),
    [
        (0.05, ""),
        (0.6, ", as far as losses with so much noise can tell"),
        (0.01, ", as far as losses that hardly moved can tell"),
    ],
)
def test_losses_that_tell_little_are_called_the_same_with_a_reservation(
    run: Run, made_up: MadeUpFlow, band: float, reserved: str
) -> None:
    verdict = builders.verdict(parity=builders.parity(band=band))
    made_up.result = builders.search_result(verdict=verdict)
    assert f"the same{reserved}: over" in " ".join(run("search", "photos.py").stdout.split())
    assert f"Yes{reserved}. Over" in render(made_up.result)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (("train.py:52",), "train.py:52 was not reached"),
        (("train.py:52", "loop.py:9"), "train.py:52 and 1 other place were not reached"),
    ],
)
def test_a_place_that_was_not_reached_is_told_with_the_answer(
    run: Run, made_up: MadeUpFlow, places: tuple[str, ...], said: str
) -> None:
    made_up.result = builders.search_result(verdict=builders.verdict(not_reached=places))
    same = f"same training as far as it was compared: past its first steps {said}"
    assert f"interval 1.98 to 2.27), {same}" in " ".join(run("search", "photos.py").stdout.split())
    page = render(made_up.result)
    assert f"the {same}</span></h1>" in page
    assert "<dd>Yes" not in page and "As far as it was compared, yes. Over" in page
    assert from_document(to_document(made_up.result)) == made_up.result


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (
            Ratio(estimate=1.04, low=0.89, high=1.21),
            (
                "in turns, trial 2 came out 1.04× (0.89× to 1.21×, 95 % interval) beside trial 4, "
                "no clear difference"
            ),
        ),
        (
            Ratio(estimate=1.2, low=1.04, high=1.4),
            "in turns, trial 2 came out 1.20× (1.04× to 1.40×, 95 % interval) beside trial 4",
        ),
        (None, ""),
    ],
)
def test_screen_and_page_tell_why_a_trial_was_chosen(
    run: Run, made_up: MadeUpFlow, ratio: Ratio | None, said: str
) -> None:
    rematch = Rematch(trials=(4, 2), ratio=ratio, taken=2) if ratio else None
    search = builders.search_facts(rematch=rematch)
    said += ": trial 2 was taken" * bool(said)
    made_up.result = builders.search_result(search=search)
    shown, page = " ".join(run("search", "photos.py").stdout.split()), render(made_up.result)
    assert chosen(made_up.result) == said
    assert said in shown and said in page
    assert ("Chosen" in shown) is ("Chosen: " in page) is bool(said)


def test_a_rematch_that_was_won_since_the_other_failed_is_told() -> None:
    rematch = Rematch(trials=(4, 2), taken=2, failed=(4,), reason="RuntimeError: no memory")
    result = builders.search_result(search=builders.search_facts(rematch=rematch))
    assert chosen(result) == (
        "in turns, trial 4 failed (RuntimeError: no memory): trial 2 was taken"
    )
    assert from_document(to_document(result)) == result


def test_where_both_failed_in_the_rematch_why_one_is_taken_is_told() -> None:
    rematch = Rematch(trials=(4, 2), taken=4, failed=(2, 4), reason="It ended; RuntimeError")
    result = builders.search_result(search=builders.search_facts(rematch=rematch))
    assert chosen(result).endswith(
        "trial 2 and trial 4 failed (It ended; RuntimeError): "
        "trial 4 was taken, as it came out best by itself"
    )


@pytest.mark.parametrize("tried", [True, False])
def test_what_was_judged_after_the_two_best_is_told(tried: bool) -> None:
    rematch = Rematch(trials=(7, 2), ratio=Ratio(estimate=1.2, low=1.04, high=1.4), taken=7)
    config = builders.trials()[9].config if tried else {"threads": 3}
    result = builders.search_result(
        search=builders.search_facts(rematch=rematch),
        verdict=builders.verdict(config=config, passed_over="threads 1: another training."),
    )
    which = "trial 9, the next best," if tried else "the next best"
    said = f": trial 7 was taken; later, when it was judged, {which} took its place"
    assert chosen(result).endswith(said)


def test_the_losses_of_which_a_difference_is_said_are_the_smoothed_ones(
    run: Run, made_up: MadeUpFlow
) -> None:
    shown, page = " ".join(run("search", "photos.py").stdout.split()), render(made_up.result)

    for text in (shown, page):
        assert text.count("losses differ by") == text.count("smoothed losses differ by") > 0


@pytest.mark.parametrize(
    ("low", "least", "end"),
    [(1.06, "At least 1.06× faster", "1.06"), (1.003, "At least as fast", "1.003")],
)
def test_of_a_gain_that_is_hardly_known_the_least_is_promised(
    run: Run, made_up: MadeUpFlow, low: float, least: str, end: str
) -> None:
    rough = Ratio(estimate=2.4, low=low, high=5.46)
    made_up.result = builders.search_result(verdict=builders.verdict(speedup=rough))

    said = " ".join(run("search", "photos.py").stdout.split())

    assert f"{least} (2.40× faster as timed; 95 % interval {end} to 5.46)" in said
    assert f"<h1><b>{least}</b>, " in render(made_up.result)


def test_an_end_of_an_interval_is_not_rounded_to_1(run: Run, made_up: MadeUpFlow) -> None:
    near = Ratio(estimate=1.05, low=1.0033, high=1.099)
    delivered = Delivered(samples_per_second=379.8, speedup=near, settings_observed=True)
    made_up.result = builders.search_result(
        verdict=builders.verdict(speedup=near, delivered=delivered)
    )
    assert "1.05× faster (95 % interval 1.003 to 1.10)" in run("search", "photos.py").stdout
    assert "1.003× to 1.10×, 95 % interval" in render(made_up.result)


def test_an_interval_of_what_is_handed_back_that_has_no_end_is_not_known() -> None:
    endless = Ratio(estimate=1.05, low=0.0, high=math.inf)
    delivered = Delivered(samples_per_second=379.8, speedup=endless, settings_observed=True)
    page = render(builders.search_result(verdict=builders.verdict(delivered=delivered)))
    assert "the patched program itself, how far off that may be is not known" in page
    assert "inf×" not in page


def test_nothing_to_gain_is_an_answer(run: Run, made_up: MadeUpFlow) -> None:
    made_up.result = builders.no_gain_result()

    answer = run("search", "photos.py")

    assert answer.exit_code == 0
    said = " ".join(answer.stdout.split())
    assert "Nothing found to gain in what was tried. The best of 6 settings came out" in said
    assert "Not tried: num_workers, persistent_workers, channels_last, precision." in said
    assert "faster" not in answer.stdout
    assert "Next" not in answer.stdout


def test_no_answer_says_why_and_how_to_try_again(run: Run, made_up: MadeUpFlow) -> None:
    typed = ("search", "photos.py", "--budget=60s", "--knob", "threads=1,2", "--", "--dir", "a b")
    made_up.result = builders.failed_result(command=("autotune", *typed))

    answer = run("search", "photos.py")

    assert "No answer. The machine was too busy" in answer.stdout
    again = "  autotune search photos.py --budget=60s --knob threads=1,2 -- --dir 'a b'"
    assert answer.stdout.splitlines()[-1] == again


def test_an_answer_that_a_few_turns_are_lacking_for_is_given_more_time(
    run: Run, made_up: MadeUpFlow
) -> None:
    verdict = builders.verdict(outcome="failed", reason="Allow more.", left_out=1, rounds=(2,))
    command = ("autotune", "search", "photos.py", "--budget", "60s")
    made_up.result = builders.search_result(verdict=verdict, command=command)

    said = run("search", "photos.py").stdout.splitlines()

    assert said[-2] == "Next: give it more time; the search goes on where it stopped"
    assert said[-1].startswith("  autotune search photos.py --budget ")


def test_an_answer_that_is_lacking_for_another_reason_is_not_sought_again(
    run: Run, made_up: MadeUpFlow
) -> None:
    verdict = builders.verdict(outcome="failed", reason="The program ended.", left_out=0)
    made_up.result = builders.search_result(verdict=verdict, trials=())

    answer = run("search", "photos.py")

    assert "Next" not in answer.stdout
    assert answer.exit_code == MeasurementError.exit_code


def test_a_wide_interval_is_worth_a_larger_budget(run: Run, made_up: MadeUpFlow) -> None:
    verdict = builders.verdict(
        outcome="no_gain", speedup=Ratio(estimate=1.04, low=0.9, high=1.2), config={}
    )
    made_up.result = builders.no_gain_result(verdict=verdict)

    lines = run("search", "photos.py").stdout.splitlines()

    assert lines[-2].startswith(
        "Next: give it more time on a quieter machine, a gain of up to 1.20×"
    )
    assert lines[-1] == "  autotune search photos.py --budget 3m -- --epochs 3"


def test_more_time_is_not_asked_for_where_time_was_left(run: Run, made_up: MadeUpFlow) -> None:
    verdict = builders.verdict(
        outcome="no_gain", speedup=Ratio(estimate=1.04, low=0.9, high=1.2), config={}
    )
    cost = Cost(seconds=20.0, trials=3, break_even_steps=None)
    made_up.result = builders.no_gain_result(verdict=verdict, cost=cost)

    lines = run("search", "photos.py").stdout.splitlines()

    assert lines[-2].startswith("Next: time it again on a quieter machine, a gain of up to 1.20×")
    assert lines[-1] == "  autotune search photos.py --budget 60s -- --epochs 3"


def test_more_turns_of_three_steps_are_not_asked_for(run: Run, made_up: MadeUpFlow) -> None:
    verdict = builders.verdict(
        outcome="no_gain", speedup=Ratio(estimate=1.04, low=0.9, high=1.2), config={}
    )
    few = (Doubt(name=TOO_FEW_STEPS, evidence="Only 2 steps were timed.", advice="More epochs."),)
    profile = builders.profile(ended_early=True, doubts=few)
    made_up.result = builders.no_gain_result(verdict=verdict, profile=profile)

    assert "Next: let it train longer, with more epochs" in run("search", "photos.py").stdout


def test_what_an_interrupted_search_took_is_no_time_of_this_one(
    run: Run, made_up: MadeUpFlow
) -> None:
    verdict = builders.verdict(
        outcome="no_gain", speedup=Ratio(estimate=1.04, low=0.9, high=1.2), config={}
    )
    cost = Cost(
        seconds=120.0, trials=3, break_even_steps=None, earlier_trials=2, earlier_seconds=100.0
    )
    made_up.result = builders.no_gain_result(verdict=verdict, cost=cost)

    said = run("search", "photos.py").stdout
    lines = said.splitlines()

    assert "2 min for 3 trials, 2 of them made before" in said
    assert lines[-2].startswith("Next: time it again on a quieter machine")


def test_a_gain_that_may_be_chance_is_not_called_nothing(run: Run, made_up: MadeUpFlow) -> None:
    verdict = builders.verdict(
        outcome="no_gain",
        reason="It came out 1.36x.",
        speedup=Ratio(estimate=1.36, low=0.5, high=4.1),
        config={},
    )
    made_up.result = builders.no_gain_result(verdict=verdict)

    said = run("search", "photos.py").stdout

    assert "Undecided. It came out 1.36x." in said and "Nothing" not in said
    assert "<b>Undecided</b>" in render(made_up.result)


@pytest.mark.parametrize(
    ("why", "is_hinted"), [("budget", True), ("trials", False), ("patience", False)]
)
def test_few_trials_are_worth_a_larger_budget_where_the_budget_cut_them_off(
    run: Run, made_up: MadeUpFlow, why: str, is_hinted: bool
) -> None:
    verdict = builders.verdict(outcome="no_gain", speedup=None, config={}, delivered=None)
    made_up.result = builders.no_gain_result(
        verdict=verdict,
        trials=builders.trials()[:3],
        search=builders.search_facts(ending=Ending(why=why, reason="So it ended.")),
    )

    shown = run("search", "photos.py").stdout

    assert ("only 2 of 79 other configurations could be tried" in shown) == is_hinted
    assert ("--budget" in shown) == is_hinted


@pytest.mark.parametrize(
    ("same", "another", "said"),
    [
        (False, False, ", but not the same training"),
        (None, False, ", but whether it is the same training could not"),
        (None, True, ", but another training, as was allowed"),
    ],
)
def test_another_training_is_never_passed_over(
    run: Run, made_up: MadeUpFlow, same: bool | None, another: bool, said: str
) -> None:
    parity = builders.parity(same_training=same, is_another=another)
    made_up.result = builders.search_result(verdict=builders.verdict(parity=parity))

    shown = run("search", "photos.py").stdout

    assert said in shown
    assert ", same training" not in shown


@pytest.mark.parametrize(
    ("suspect", "last"), [("precision", "--knob precision=off"), ("", "--allow different")]
)
def test_another_training_is_searched_on_without_what_makes_it_one(
    run: Run, made_up: MadeUpFlow, suspect: str, last: str
) -> None:
    parity = builders.parity(same_training=False)
    verdict = builders.verdict(outcome="no_gain", parity=parity, suspect=suspect)
    made_up.result = builders.search_result(verdict=verdict)

    assert f" {last} -- " in run("search", "photos.py").stdout.splitlines()[-1]


def test_what_fails_later_is_searched_on_without_what_makes_it_fail(
    run: Run, made_up: MadeUpFlow
) -> None:
    reason = "The best settings came out 1.50×, but with channels_last on the program fails later"
    verdict = builders.verdict(outcome="no_gain", reason=reason, suspect="channels_last")
    made_up.result = builders.search_result(verdict=replace(verdict, breaks=True))

    shown = run("search", "photos.py").stdout

    assert f"Fails later. {reason}" in " ".join(shown.split())
    last = shown.splitlines()[-1]
    assert " --knob channels_last=off -- " in last and "--allow" not in shown


def test_what_slows_validations_is_searched_on_without_it(run: Run, made_up: MadeUpFlow) -> None:
    reason = "The best settings make the steps 1.50× as fast, but a validation takes 2 s with them"
    verdict = builders.verdict(outcome="no_gain", reason=reason, suspect="threads", slows=True)
    made_up.result = builders.search_result(verdict=verdict)

    shown = run("search", "photos.py").stdout

    assert f"Slower validations. {reason}" in " ".join(shown.split())
    assert " --knob threads=off -- " in shown.splitlines()[-1]


def test_how_far_it_was_run_on_is_said(run: Run, made_up: MadeUpFlow) -> None:
    verdict = builders.verdict(through="with 2 batches in each epoch it came to its end")
    made_up.result = builders.search_result(verdict=verdict)

    assert "Run further  with 2 batches in each epoch it" in run("search", "photos.py").stdout


def test_what_a_gain_comes_to_with_validations_is_said(run: Run, made_up: MadeUpFlow) -> None:
    found = Validations(
        own_seconds=0.8, tuned_seconds=1.2, share=0.4, whole=1.13, often="once an epoch"
    )
    verdict = builders.verdict(validations=found)
    made_up.result = builders.search_result(verdict=verdict)

    shown = " ".join(run("search", "photos.py").stdout.split())

    assert (
        "counted in, once an epoch, it is 1.13× as fast: one takes 1.20 s, and 800 ms before"
        in shown
    )


@pytest.mark.parametrize("tuned_seconds", [1.6, 0.9])
def test_validations_of_which_only_short_ones_were_seen_are_said_where_they_are_slower(
    run: Run, made_up: MadeUpFlow, tuned_seconds: float
) -> None:
    found = Validations(
        own_seconds=0.8, tuned_seconds=tuned_seconds, share=0.0, whole=1.5, short=True
    )
    made_up.result = builders.search_result(verdict=builders.verdict(validations=found))

    shown = " ".join(run("search", "photos.py").stdout.split())

    said = "Where its epochs are cut short a validation takes 1.60 s with these settings, and"
    assert (said in shown) is (tuned_seconds > 1)


def test_an_upper_end_that_says_nothing_is_not_named(run: Run, made_up: MadeUpFlow) -> None:
    speedup = Ratio(estimate=1.3, low=0.03, high=49.0)
    verdict = builders.verdict(outcome="no_gain", speedup=speedup, config={})
    made_up.result = builders.no_gain_result(verdict=verdict)

    shown = run("search", "photos.py").stdout

    assert "a gain is not excluded" in shown and "a gain of" not in shown


def test_what_was_faster_still_is_said(run: Run, made_up: MadeUpFlow) -> None:
    verdict = builders.verdict(passed_over="precision bf16: it came out 2.5×.")
    made_up.result = builders.search_result(verdict=verdict)

    assert "Passed over  precision bf16: it came out 2.5×." in run("search", "photos.py").stdout


def test_samples_that_were_counted_by_shape_are_said_to_be_that(
    run: Run, made_up: MadeUpFlow
) -> None:
    profile = builders.profile(seen=builders.seen(loader=None, samples_per_step=50.0))
    made_up.result = builders.search_result(profile=profile)
    assert "a step counts as 50 samples" in run("search", "photos.py").stdout
    made_up.result = builders.profile_result(profile=profile)
    assert "a step counts as 50 samples" in run("profile", "photos.py").stdout


def test_each_trial_is_a_line(run: Run, made_up: MadeUpFlow) -> None:
    lines = run("search", "photos.py").stdout.splitlines()

    assert "  0  180 samples/s            as it is" in lines
    assert "  1  243 samples/s    1.35×   num_workers 2" in lines
    hung = next(line for line in lines if line.startswith("  4  hung"))
    assert "num_workers 2, precision bf16: No step within 12 s" in hung
    doubted = next(line for line in lines if line.startswith("  7 "))
    assert doubted.endswith("(unstable)")


def test_what_was_changed_is_shown_from_to(run: Run, made_up: MadeUpFlow) -> None:
    shown = run("search", "photos.py").stdout

    assert "  num_workers         0 → 4     in the patch\n" in shown
    assert "  channels_last       off → on  in the patch\n" in shown
    assert "  threads             2 → 1     there already\n" in shown


def test_an_option_that_the_patch_puts_out_of_effect_is_said(run: Run, made_up: MadeUpFlow) -> None:
    said = "it was args.workers, which has no effect here any more"
    first, *others = builders.edits()
    made_up.result = builders.search_result(edits=(replace(first, reason=said), *others))

    shown = " ".join(run("search", "photos.py").stdout.split())

    assert f"num_workers 0 → 4 in the patch; {said}" in shown
    assert f"done</span>: {said}" in render(made_up.result)


def test_what_the_patch_lacks_is_said_with_its_steps_by_hand(run: Run, made_up: MadeUpFlow) -> None:
    shown = run("search", "photos.py").stdout

    assert "micro_batches  The loop body is in a library." in shown
    assert "by hand: train.py:88  loss = loss / 2" in shown


def test_what_was_handed_back_is_shown_as_it_was_timed(run: Run, made_up: MadeUpFlow) -> None:
    shown = run("search", "photos.py").stdout

    assert "the patched program itself was timed: 2.11× faster" in shown
    assert "660 steps of training (10 epochs) earn it back" in shown


def test_a_figure_that_is_the_answer_s_own_is_told_once(run: Run, made_up: MadeUpFlow) -> None:
    verdict = builders.verdict()
    assert verdict.delivered is not None and verdict.speedup is not None
    own = replace(verdict.delivered, speedup=verdict.speedup)
    made_up.result = builders.search_result(verdict=replace(verdict, delivered=own))

    assert run("search", "photos.py").stdout.count(f"{verdict.speedup.estimate:.2f}× faster") == 1


def test_a_patch_that_has_every_setting_is_the_next_to_apply(run: Run, made_up: MadeUpFlow) -> None:
    made_up.result = builders.search_result(edits=())

    lines = run("search", "photos.py").stdout.splitlines()

    assert lines[-1] == "  autotune apply autotune-out/photos"


def test_a_recipe_s_program_is_put_beside_it(run: Run, made_up: MadeUpFlow) -> None:
    made_up.result = builders.search_result(edits=(), target=builders.target(kind=RECIPE))

    lines = run("search", "photos.py").stdout.splitlines()

    assert lines[-2:] == [
        "Next: put the tuned program beside the recipe (--reverse removes it)",
        "  autotune apply autotune-out/photos",
    ]


def test_a_program_that_was_not_timed_says_why(run: Run, made_up: MadeUpFlow) -> None:
    delivered = Delivered(
        samples_per_second=None, speedup=None, settings_observed=False, reason="it crashed"
    )
    made_up.result = builders.search_result(verdict=builders.verdict(delivered=delivered))

    assert "Handed back  it crashed" in run("search", "photos.py").stdout


def test_a_program_that_came_out_slower_is_not_called_faster(run: Run, made_up: MadeUpFlow) -> None:
    delivered = Delivered(
        samples_per_second=177.0,
        speedup=Ratio(estimate=0.98, low=0.95, high=1.01),
        settings_observed=True,
    )
    made_up.result = builders.search_result(verdict=builders.verdict(delivered=delivered))

    assert (
        "itself was timed: 0.98× the speed, which may be chance"
        in run("search", "photos.py").stdout
    )


def test_json_is_one_document_and_progress_goes_to_stderr(run: Run, made_up: MadeUpFlow) -> None:
    answer = run("search", "photos.py", "--json")

    assert answer.stdout.count("\n") == 1
    assert from_document(json.loads(answer.stdout)) == made_up.result
    assert "num_workers 2" in answer.stderr


def test_an_answer_that_cannot_be_written_down_is_shown(run: Run, made_up: MadeUpFlow) -> None:
    refused = UsageError("out/result.json cannot be written: No space left on device.", "Name one.")
    made_up.result = NotWrittenError(refused, builders.search_result())

    answer = run("search", "photos.py")

    assert answer.exit_code == UsageError.exit_code
    assert "2.12× faster" in answer.stdout and "Settings" in answer.stdout
    assert "Written to" not in answer.stdout and "Next" not in answer.stdout
    assert "No space left on device" in answer.stderr


def test_quiet_is_the_answer_alone(run: Run, made_up: MadeUpFlow) -> None:
    answer = run("search", "photos.py", "-q")

    assert answer.output == "2.12× faster (95 % interval 1.98 to 2.27), same training\n"


def test_every_flag_reaches_the_search(run: Run, made_up: MadeUpFlow) -> None:
    flags = "--out o --budget 1h30m --trials 9 --device cpu --seed 3 --allow different --storage s"
    knobs = "--knob num_workers=2,4 --knob channels_last=on --knob compile=off"

    answer = run("search", "train.py", *flags.split(), *knobs.split(), "--", "--lr", "1e-3")

    options = made_up.options
    assert answer.exit_code == 0
    assert made_up.arguments == ("--lr", "1e-3")
    assert (options.out, options.storage) == (Path("o"), "s")
    assert (options.budget_seconds, options.trials, options.seed) == (5400.0, 9, 3)
    assert (options.device, options.allow) == ("cpu", Semantics.DIFFERENT)
    assert options.knobs == {"num_workers": (2, 4), "channels_last": (True,), "compile": None}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--budget soon", "'soon' is not a length of time"),
        ("--allow anything", "say identical, equivalent, different"),
        ("--knob workers", "says no values"),
        ("--knob num_worker=2", "did you mean num_workers?"),
    ],
)
def test_a_value_that_cannot_be_taken_says_what_can(
    run: Run, made_up: MadeUpFlow, flags: str, said: str
) -> None:
    answer = run("search", "train.py", *flags.split())

    assert answer.exit_code == 2
    assert said.lower() in answer.stderr.lower()
    assert made_up.target == ""


def test_the_help_says_what_a_trial_costs(run: Run) -> None:
    said = " ".join(run("search", "--help").stdout.split())

    assert "each starts the program anew and trains for some seconds, never a whole run" in said


def test_a_kept_answer_says_how_old_it_is(run: Run, made_up: MadeUpFlow) -> None:
    facts = builders.search_facts(
        ending=Ending(why="patience", reason="Of what is left, nothing is worth its time."),
        answered_at="2026-11-21T06:25:10+00:00",
    )
    made_up.result = builders.search_result(search=facts)

    shown = run("search", "photos.py").stdout

    assert "Searched 2 h ago (21 November 2026, 04:25 UTC)" in " ".join(shown.split())
    assert "--fresh searches again" in shown
    assert "Of what is left, nothing is worth its time." in shown


def test_what_is_said_of_the_search_reaches_it(run: Run, made_up: MadeUpFlow) -> None:
    flags = ("--sampler", "tpe", "--patience", "20s", "--memory-limit", "8G", "--fresh", "--energy")

    assert run("search", "photos.py", *flags).exit_code == 0

    options = made_up.options
    assert (options.sampler, options.patience_seconds) == ("tpe", 20.0)
    assert (options.memory_limit_bytes, options.fresh, options.energy) == (8 << 30, True, True)


def test_what_takes_the_least_energy_is_named_with_the_command_that_has_it(
    run: Run, made_up: MadeUpFlow
) -> None:
    facts = builders.search_facts(energy=True)
    made_up.result = builders.search_result(trials=builders.energies(), search=facts)

    shown = run("search", "photos.py", "--energy").stdout

    said = (
        "Least energy  trial 5 (num_workers 4, threads 1, persistent_workers on): 1.20 J a sample"
    )
    assert said in shown
    assert shown.splitlines()[-1] == "  autotune run autotune-out/photos --trial 5"

    made_up.result = builders.search_result(search=facts)
    shown = run("search", "photos.py", "--energy").stdout
    assert "Least energy  not known of any trial" in shown and "--trial" not in shown


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--sampler", "magic", "there is no sampler called 'magic'"),
        ("--memory-limit", "much", "'much' is not a size of memory"),
        ("--patience", "soon", "'soon' is not a length of time"),
    ],
)
def test_what_a_search_cannot_take_is_refused(
    run: Run, made_up: MadeUpFlow, flag: str, value: str, said: str
) -> None:
    answer = run("search", "photos.py", flag, value)

    assert answer.exit_code == 2
    assert said in answer.stderr


@pytest.mark.parametrize("storage", ["postgresql://db/tuning", "common.journal"])
def test_searches_that_share_a_study_write_beside_one_another(
    run: Run, made_up: MadeUpFlow, monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    outs: list[Path | None] = []

    def search(*words: Any, options: flow.Options, **others: Any) -> Result:
        outs.append(options.out)
        if options.out in (Path("autotune-out/train"), Path("autotune-out/train-2")):
            raise TakenError(f"Process 7 is writing into {options.out} at this moment.")
        return made_up.run(*words, options=options, **others)

    monkeypatch.setattr(flow, "search", search)
    shown = " ".join(run("search", "train.py", "--storage", storage).stdout.split())
    assert [each.name for each in outs if each] == ["train", "train-2", "train-3"]
    assert "autotune-out/train-2 at this moment. This search writes into autotune-out/train-3." in (
        shown
    )
    assert "Written to autotune-out/train-3/" in shown
    for flags in (("--out", "autotune-out/train", "--storage", storage), ()):
        answer = run("search", "train.py", *flags)
        assert (answer.exit_code, "at this moment" in answer.stderr) == (2, True)


def test_an_earlier_program_that_is_applied_is_not_called_faster(
    run: Run, made_up: MadeUpFlow, tmp_path: Path
) -> None:
    (tmp_path / "autotune-out" / "photos").mkdir(parents=True)
    earlier = searched(tmp_path, {"train.py": (BEFORE, AFTER)}).rename(
        tmp_path / "autotune-out" / "photos" / EARLIER
    )
    (earlier / "tuned.toml").touch()
    made_up.result = builders.no_gain_result()
    faster = "A faster program of an earlier search is kept in autotune-out/photos/earlier/"
    assert faster in run("search", "photos.py").stdout

    (tmp_path / "train.py").write_text(AFTER)

    shown = run("search", "photos.py").stdout
    assert "The patch of an earlier search is applied; what that search wrote is kept in" in shown
    assert "faster program" not in shown


def test_what_earlier_trials_took_is_said(run: Run, made_up: MadeUpFlow) -> None:
    spent = Cost(seconds=168.0, trials=6, break_even_steps=None)
    made_up.result = builders.search_result(cost=spent)
    assert "2.8 min for 6 trials\n" in run("search", "photos.py").stdout

    made_up.result = replace(
        made_up.result, cost=replace(spent, earlier_trials=3, earlier_seconds=90.0)
    )
    said = "2.8 min for 6 trials, 3 of them made before, in 90 s of that\n"
    assert said in run("search", "photos.py").stdout
