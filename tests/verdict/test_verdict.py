"""Verdicts, from turns as the contestants took them."""

import math
import random
from collections import Counter
from dataclasses import replace

import pytest

from autotune.measurement.interleaved.turns import Turns
from autotune.measurement.measurement import Failure
from autotune.measurement.ratios import (
    FEWEST_TURNS_PER_PROCESS,
    LOOKS,
    Ratio,
    confidence_per_look,
)
from autotune.source.edits import EditOutcome, LoaderArgument
from autotune.verdict import decide, is_decided
from autotune.verdict.clear import is_clear
from autotune.verdict.contestants import BASELINE, DELIVERED, TUNED, parity_in_turns
from autotune.workload.window import Allocator, Window
from tests import builders

CONFIG = {"num_workers": 4, "threads": 1}
FALL = [2 * math.exp(-step / 50) for step in range(100)]
CURVE = [2 * math.exp(-step / 50) + 0.1 * math.sin(7 * step) for step in range(100)]


def window(rate, *, starved=False):
    delayed = 1.2 if starved else 0.0
    return Window(
        mode="as_is",
        steps=round(rate * 0.4),
        samples=round(rate * 0.4),
        seconds=0.4,
        cpu_seconds=0.4 * (0.8 if starved else 1.9),
        delayed_seconds=0.4 * delayed,
    )


def turns(*, rounds=LOOKS[-1], noise=0.02, starved=0, losses=None, **rates):
    """Every contestant's turns; in the first `starved` of each round the last one is starved."""
    chance = random.Random(7)

    def taken(name):
        return [
            window(
                rates[name] * chance.lognormvariate(0, noise),
                starved=turn < starved and name == list(rates)[-1],
            )
            for turn in range(FEWEST_TURNS_PER_PROCESS)
        ]

    return Turns(
        windows={name: [taken(name) for _ in range(rounds)] for name in rates},
        losses=dict.fromkeys(rates, CURVE) | (losses or {}),
        seen={name: builders.seen() for name in rates},
    )


def judged(taken, config=None, missing=(), edits=(), *, may_differ=False):
    given = CONFIG if config is None else config
    return decide(
        taken,
        given,
        cores=2,
        unobserved=lambda seen: missing,
        edits=edits,
        may_differ=may_differ,
    )


def test_another_training_is_handed_back_only_where_that_was_allowed():
    taken = turns(baseline=1000, tuned=2000, losses={"tuned": [2 * each for each in CURVE]})
    refused = judged(taken)
    assert refused.outcome == "no_gain" and refused.trains_otherwise
    allowed = judged(taken, may_differ=True)
    assert allowed.outcome == "faster" and not allowed.trains_otherwise
    assert allowed.parity.same_training is None
    assert "Another training was allowed." in allowed.parity.reason
    taken.losses["tuned"] = [math.nan for _ in CURVE]
    broken = judged(taken, may_differ=True)
    assert broken.outcome == "no_gain" and broken.trains_otherwise
    assert refused.may_be_allowed and not broken.may_be_allowed


def test_of_another_batch_size_no_losses_are_compared():
    taken = turns(baseline=1000, tuned=2000, delivered=2000)
    found = judged(taken, {"batch_size": 128}, may_differ=True)
    assert found.outcome == "faster"
    for parity in (found.parity, found.delivered.parity):
        assert parity.is_another and parity.same_training is None
        assert "128 samples instead of 32" in parity.reason
        assert not (parity.steps or parity.baseline_losses or parity.tuned_losses)
    taken.losses["tuned"] = [math.nan for _ in CURVE]
    assert judged(taken, {"batch_size": 128}, may_differ=True).trains_otherwise


def test_a_larger_batch_is_none_that_was_left_out():
    taken = turns(baseline=1000, tuned=2000)
    for name, times in (("baseline", 1), ("tuned", 4)):
        for windows in taken.windows[name]:
            for place, count in ((0, 0), (-1, 2 * (name == "tuned"))):
                windows[place] = replace(
                    windows[place],
                    samples=windows[place].steps * times * builders.BATCH,
                    allocator=Allocator(out_of_memories=count),
                )
    assert judged(taken, {"batch_size": 4 * builders.BATCH}).parity.same_training is None
    assert judged(taken).parity.same_training is False


def test_a_clear_gain_is_claimed_with_its_interval():
    found = judged(turns(baseline=1000, tuned=2000))
    assert found.outcome == "faster"
    assert found.config == CONFIG
    assert found.speedup.low < 2 < found.speedup.high
    assert found.speedup.confidence == confidence_per_look(len(LOOKS))
    assert found.baseline_samples_per_second == pytest.approx(1000, rel=0.02)
    assert found.tuned_samples_per_second == pytest.approx(2000, rel=0.02)
    assert found.parity.same_training is True


def test_two_identical_programs_gain_nothing():
    found = judged(turns(baseline=1000, tuned=1000))
    assert found.outcome == "no_gain"
    assert found.config == {}
    assert "no difference" in found.reason
    assert not found.is_undecided


def test_turns_that_scatter_too_much_do_not_say_that_there_is_no_gain():
    found = judged(turns(baseline=1000, tuned=800, noise=0.3, rounds=1))
    assert found.speedup.estimate < 1 < found.speedup.high
    assert found.outcome == "no_gain" and found.is_undecided
    assert found.reason.endswith("too rough to tell.")


def test_a_gain_that_may_be_chance_is_undecided():
    found = judged(turns(rounds=1, noise=0.3, baseline=1000, tuned=1300))
    assert found.speedup.low < 1 and found.speedup.estimate > 1.05
    assert found.outcome == "no_gain" and found.is_undecided
    assert "it may be chance" in found.reason


def test_a_slower_candidate_is_said_to_be_slower():
    found = judged(turns(baseline=1000, tuned=600))
    assert found.outcome == "no_gain"
    assert "slower" in found.reason


def test_a_gain_that_is_certain_but_tiny_is_not_worth_a_change():
    found = judged(turns(rounds=60, noise=0.001, baseline=1000, tuned=1017))
    assert found.speedup.low > 1
    assert found.outcome == "no_gain"
    assert "too little" in found.reason


def test_a_faster_program_that_trains_differently_is_no_gain():
    half = [loss / 2 for loss in CURVE]
    found = judged(turns(baseline=1000, tuned=2000, losses={"tuned": half}))
    assert found.outcome == "no_gain"
    assert found.parity.same_training is False
    assert "did not train the same" in found.reason


def test_steps_that_a_scaler_left_out_are_counted_with_the_training():
    taken = turns(baseline=1000, tuned=2000)
    taken.skipped["tuned"] = [(0, 2), (6, 1)]
    assert judged(taken).parity.skipped_steps == 3


def test_too_few_losses_do_not_deny_a_gain():
    found = judged(turns(baseline=1000, tuned=2000, losses={"tuned": CURVE[:5]}))
    assert found.outcome == "faster"
    assert found.parity.same_training is None


def test_settings_that_change_no_number_are_held_to_the_same_numbers():
    moved = [loss * 1.001 for loss in CURVE]
    taken = turns(baseline=1000, tuned=2000, losses={"tuned": moved})
    assert judged(taken, {"pin_memory": True}).parity.same_training is False
    assert judged(taken, {"pin_memory": True, "num_workers": 2}).parity.same_training is True


@pytest.mark.parametrize(("deterministic", "same"), [(True, False), (False, True)])
def test_a_gpu_repeats_its_numbers_only_where_it_is_told_to(deterministic, same):
    """Elsewhere cuDNN may choose another algorithm in each process."""
    moved = [loss * 1.001 for loss in CURVE]
    taken = turns(baseline=1000, tuned=2000, losses={"tuned": moved})
    seen = builders.seen(device="cuda", deterministic=deterministic)
    taken.seen = dict.fromkeys(taken.seen, seen)
    assert judged(taken, {"pin_memory": True}).parity.same_training is same


def test_the_emitted_program_is_timed_beside_the_others():
    found = judged(turns(baseline=1000, tuned=2000, delivered=1950))
    assert found.outcome == "faster"
    assert found.delivered.settings_observed
    assert found.delivered.speedup.estimate == pytest.approx(1.95, rel=0.02)
    assert found.delivered.reason == ""


def test_a_gain_that_the_emitted_program_does_not_have_is_not_claimed():
    found = judged(turns(baseline=1000, tuned=2000, delivered=1000))
    assert found.outcome == "no_gain"
    assert "the patched program only" in found.reason


def test_an_emitted_program_without_its_settings_is_reported_and_the_settings_stand():
    taken = turns(baseline=1000, tuned=2000, delivered=1000)
    found = judged(taken, missing=["num_workers = 4 was asked for, and the run had 0"])
    assert found.outcome == "faster"
    assert not found.delivered.settings_observed
    assert "num_workers = 4" in found.delivered.reason


def test_steps_that_only_the_tuned_training_left_out_may_make_it_late():
    late = FALL[:1] * 3 + FALL[:-3]
    three = [(0, 2), (5, 1)]
    both = {"tuned": three, "baseline": three}
    for skipped, same in (({}, False), ({"tuned": three}, True), (both, False)):
        taken = turns(baseline=1000, tuned=2000, losses={"baseline": FALL, "tuned": late})
        taken.skipped.update(skipped)
        assert judged(taken).parity.same_training is same


FLAT = [2.3 - 0.005 * step for step in range(40)]


@pytest.mark.parametrize(
    ("skipped", "same"),
    [
        ([(0, 12)], True),  # a scale that has to fall far
        ([(0, 3), (30, 1)], True),  # one gradient that was too large, later
        ([(0, 3), (9, 3), (27, 3), (30, 3), (33, 3)], False),
        ([(0, 40)], False),
    ],
)
def test_a_scaler_that_finds_no_scale_makes_no_training(skipped, same):
    taken = turns(baseline=1000, tuned=2000, losses={"baseline": FLAT, "tuned": FLAT})
    taken.skipped["tuned"] = skipped
    for may_differ in (False, True):
        found = judged(taken, {"precision": "fp16"}, may_differ=may_differ)
        assert found.parity.same_training is same
        assert found.outcome == ("faster" if same else "no_gain") and not found.may_be_allowed
    taken.skipped["baseline"] = skipped
    assert judged(taken, {"precision": "fp16"}).parity.same_training is True


def windows_of(steps):
    """Windows of ten steps at the most, by how many had so many forward passes."""
    each = [passes for passes, number in steps.items() for _ in range(number)]
    return [tuple(sorted(Counter(each[at : at + 10]).items())) for at in range(0, len(each), 10)]


@pytest.mark.parametrize(
    ("own", "tuned", "same"),
    [
        ({2: 100}, {2: 100}, True),
        ({1: 3, 2: 100}, {1: 3, 2: 98, 4: 2}, True),  # the first steps; and what may be chance
        ({2: 100}, {2: 92, 4: 8}, False),
        ({2: 90, 4: 10}, {2: 88, 4: 12}, True),  # an agent's, say
        ({2: 90, 4: 10}, {2: 70, 4: 30}, False),
        ({2: 60, 4: 40}, {2: 30, 4: 70}, True),  # episodes, whose steps differ by themselves
        ({2: 50}, {2: 100, 4: 30}, True),  # what the program as it is did not come to
        ({2: 100}, {1: 100}, True),  # a part that another setting computes at once
        ({}, {2: 92, 4: 8}, True),
    ],
)
def test_who_passes_over_batches_has_trained_on_less(own, tuned, same):
    taken = turns(baseline=1000, tuned=2000)
    taken.forwards = {"baseline": windows_of(own), "tuned": windows_of(tuned)}
    found = judged(taken)
    assert found.parity.same_training is same
    assert ("batches are passed over" in found.parity.reason) is not same
    assert judged(taken, {"micro_batches": 2}).parity.same_training is True


def test_who_runs_out_of_memory_and_goes_on_has_trained_on_less():
    """Two windows of a process, and what its allocator counted by their ends; whoever leaves out a
    batch draws another one for the step.
    """
    cases = ((3, 3, 0, 0, True), (0, 2, 0, 2, False), (0, 2, 0, 0, True), (0, 2, 1, 2, True))
    for before, after, own, more, same in cases:
        taken = turns(baseline=1000, tuned=2000)
        for name, counts in (("baseline", (0, own)), ("tuned", (before, after))):
            for windows in taken.windows[name]:
                for place, count in zip((0, -1), counts, strict=True):
                    drawn = windows[place].steps + (more if count > counts[0] else 0)
                    windows[place] = replace(
                        windows[place],
                        samples=drawn * builders.BATCH,
                        allocator=Allocator(out_of_memories=count),
                    )
        found = judged(taken)
        assert found.parity.same_training is same
        assert ("ran out" in found.parity.reason) is not same


def test_a_training_that_stays_where_it_is_explains_its_losses_by_no_steps_left_out():
    stays = [FLAT[0]] * 40
    taken = turns(baseline=1000, tuned=2000, losses={"baseline": FLAT, "tuned": stays})
    taken.skipped["tuned"] = [(before, 3) for before in range(0, 39, 3)]
    found = judged(taken, {"precision": "fp16"})
    assert found.outcome == "no_gain" and found.trains_otherwise
    assert found.parity.reason.startswith("Its GradScaler left out 39 steps (12 in the last")


def test_an_emitted_program_that_has_a_part_of_the_settings_is_held_against_the_losses_too():
    other = [loss + 1 for loss in CURVE]
    taken = turns(baseline=1000, tuned=2000, delivered=1900, losses={"delivered": other})
    found = judged(taken, missing=["threads = 1 was asked for, and the run had 2"])
    assert found.outcome == "faster" and found.parity.same_training is True
    assert found.delivered.parity.same_training is False
    assert found.delivered.reason.startswith("The patched program did not train the same: The loss")


def test_what_was_not_emitted_says_why():
    refused = EditOutcome(
        knob="num_workers",
        edit=LoaderArgument(name="num_workers", code="4"),
        status="refused",
        reason="The loader is built in a library.",
    )
    taken = turns(baseline=1000, tuned=2000)
    assert judged(taken, edits=[refused]).delivered.reason == "The loader is built in a library."
    partly = turns(baseline=1000, tuned=2000, delivered=1500)
    lacking = judged(partly, edits=[refused], missing=["num_workers = 4 was asked for"]).delivered
    assert lacking.reason == "num_workers is not in it: The loader is built in a library."
    assert judged(taken).delivered.reason == "There is no patch."
    assert judged(taken).delivered.samples_per_second is None


def test_an_emitted_program_that_fails_says_how():
    taken = turns(baseline=1000, tuned=2000)
    taken.windows["delivered"] = [[] for _ in range(LOOKS[-1])]
    taken.failures["delivered"] = Failure(kind="crashed", reason="NameError: torch.")
    found = judged(taken)
    assert found.outcome == "faster"
    assert "NameError" in found.delivered.reason
    assert found.delivered.speedup is None


def test_a_starved_turn_counts_for_nobody():
    found = judged(turns(starved=2, baseline=1000, tuned=2000))
    kept = LOOKS[-1] * (FEWEST_TURNS_PER_PROCESS - 2)
    assert found.left_out == LOOKS[-1] * 2
    assert [len(each) for each in found.turns.values()] == [kept, kept]
    assert sum(found.rounds) == kept
    assert found.outcome == "faster"


def test_a_machine_that_is_too_busy_gives_no_verdict():
    found = judged(turns(starved=3, baseline=1000, tuned=2000))
    assert found.outcome == "failed"
    assert "too busy" in found.reason


def test_time_that_was_too_short_is_not_put_down_to_the_machine():
    taken = turns(rounds=1, starved=1, baseline=1000, tuned=2000)
    taken.windows = {name: [rounds[0][:3]] for name, rounds in taken.windows.items()}
    found = judged(taken)
    assert (found.outcome, found.left_out, found.rounds) == ("failed", 1, (2,))
    assert "spoilt 1 turn, and the time was over" in found.reason


def test_a_program_that_ends_at_once_gives_no_verdict():
    taken = turns(rounds=1, baseline=1000, tuned=2000)
    taken.windows = {name: [rounds[0][:2]] for name, rounds in taken.windows.items()}
    taken.ended = {"baseline", "tuned"}
    found = judged(taken)
    assert found.outcome == "failed"
    assert found.speedup is None
    assert "ended before" in found.reason


def test_no_settings_are_no_gain():
    found = judged(Turns(), {})
    assert found.outcome == "no_gain"
    assert found.turns == {}
    assert found.delivered is None


def test_a_device_that_was_not_the_program_s_own_decides_nothing():
    given = turns(baseline=1000, tuned=2000)
    for number, each in enumerate(given.windows["baseline"]):
        given.disturbed |= {(number, turn) for turn in range(len(each))}
    found = judged(given)
    assert found.outcome == "failed"
    assert "GPU was shared" in found.reason


def test_an_emitted_program_whose_turns_were_all_spoilt_says_so():
    found = judged(
        turns(baseline=1000, tuned=2000, delivered=1950, starved=FEWEST_TURNS_PER_PROCESS)
    )
    assert found.delivered.speedup is None
    assert found.delivered.settings_observed
    assert found.delivered.reason.startswith("Too few turns of the patched program")


def test_a_failure_in_the_turns_ends_them_and_is_said():
    taken = turns(rounds=1, baseline=1000, tuned=2000)
    taken.failures["tuned"] = Failure(kind="out_of_memory", reason="Out of memory.")
    assert is_decided(taken, cores=2)
    assert judged(taken).outcome == "no_gain"
    assert "Out of memory" in judged(taken).reason
    taken.failures = {"baseline": Failure(kind="killed", reason="Killed.")}
    assert is_decided(taken, cores=2)
    assert judged(taken).outcome == "failed"


def test_a_gain_that_is_clear_is_measured_on_until_it_is_precise():
    assert not is_decided(turns(rounds=1, baseline=1000, tuned=8000), cores=2)
    assert is_decided(turns(rounds=LOOKS[-1], baseline=1000, tuned=8000), cores=2)


def test_a_clear_loss_is_decided_early():
    assert is_decided(turns(rounds=1, baseline=1000, tuned=500), cores=2)


def test_a_loss_that_may_be_none_is_looked_at_again():
    assert is_clear(Ratio(estimate=0.8, low=0.65, high=0.99))
    assert not is_clear(Ratio(estimate=0.82, low=0.66, high=1.01))
    assert is_clear(Ratio(estimate=0.96, low=0.91, high=1.01))
    assert not is_clear(Ratio(estimate=1.0, low=0.95, high=1.05))


def test_a_small_gain_needs_more_rounds():
    assert not is_decided(turns(rounds=1, baseline=1000, tuned=1100), cores=2)


def test_nothing_is_decided_between_the_planned_looks():
    assert not is_decided(turns(rounds=2, baseline=1000, tuned=8000), cores=2)


def test_a_round_that_nobody_took_counts_for_nothing():
    taken = turns(rounds=1, baseline=1000, tuned=2000)
    taken.windows = {name: [*rounds, []] for name, rounds in taken.windows.items()}
    assert judged(taken).rounds == (FEWEST_TURNS_PER_PROCESS,)


@pytest.mark.parametrize(("ended", "says"), [({"tuned"}, "let it train longer"), (set(), "time")])
def test_too_few_turns_are_the_programs_only_where_it_ended(ended, says):
    found = turns(baseline=1000, tuned=2000, rounds=1)
    found.windows = {
        name: [taken[:2] for taken in rounds] for name, rounds in found.windows.items()
    }
    found.ended = ended
    verdict = judged(found)
    assert verdict.outcome == "failed" and says in verdict.reason


@pytest.mark.parametrize(
    ("by", "iterable", "workers", "same"),
    [(1.07, True, 2, None), (1.07, False, 2, False), (1.07, True, 0, False), (2.0, True, 2, False)],
)
def test_samples_of_a_stream_come_in_another_order_from_workers(by, iterable, workers, same):
    losses = {"tuned": [by * loss for loss in CURVE]}
    taken = turns(baseline=1000, tuned=2000, losses=losses)
    for name, number in (("baseline", 0), ("tuned", workers)):
        seen = builders.seen()
        stream = replace(seen.loader, iterable=iterable, num_workers=number)
        taken.seen[name] = replace(seen, loader=stream)
    found = judged(taken)
    assert found.parity.same_training is same
    assert ("another order" in found.parity.reason) == (same is None)
    assert found.outcome == ("no_gain" if same is False else "faster")


@pytest.mark.parametrize(
    ("tuned", "same"),
    [
        ([0.1] * 50 + [0.01] * 50, True),
        ([0.1] * 20 + [0.1001] * 30 + [0.01] * 50, None),
        ([0.1] * 20 + [math.nan] * 80, True),
        ([], True),
    ],
)
def test_another_learning_rate_in_the_same_step_leaves_open_whether_it_is_the_same_training(
    tuned: list[float], same: bool | None
) -> None:
    taken = turns(baseline=1000, tuned=2000)
    taken.rates = {BASELINE: [0.1] * 50 + [0.01] * 50, TUNED: tuned}
    parity = judged(taken).parity
    assert parity.same_training is same
    assert ("n the compared steps the learning rate comes to be another" in parity.reason) == (
        same is None
    )
    assert ("it goes by the losses (ReduceLROnPlateau), or" in parity.reason) == (same is None)
    taken.rates[BASELINE] = [math.nan] * 100  # on its device
    assert judged(taken).parity.same_training


def test_a_contestant_is_judged_by_seeds_of_its_own() -> None:
    course = [3.0 - 0.01 * step for step in range(100)]

    def moved(by: float) -> list[float]:
        return [each + by for each in course]

    pairs = [(moved(0.8), moved(0.4)), (moved(0.9), moved(0.4))]
    turns = Turns(
        losses={BASELINE: course, TUNED: moved(0.5), DELIVERED: moved(0.6)},
        controls=[course],
        pairs={DELIVERED: pairs},
    )
    found = {
        name: parity_in_turns(turns, {"num_workers": 2}, name).same_training
        for name in (TUNED, DELIVERED)
    }
    assert found == {TUNED: False, DELIVERED: None}


def test_of_programs_that_take_memory_anew_less_is_known():
    calm = turns(rounds=2, baseline=100.0, tuned=150.0)
    busy = turns(rounds=2, baseline=100.0, tuned=150.0)
    for taken in busy.windows[BASELINE]:
        taken[:] = [replace(each, page_faults=80_000) for each in taken]
    first, second = (
        decide(each, CONFIG, cores=2, unobserved=lambda _: []) for each in (calm, busy)
    )
    assert first.speedup is not None and second.speedup is not None
    assert second.speedup.estimate == first.speedup.estimate
    assert second.speedup.low < 0.95 * first.speedup.low
    assert second.scatter > first.scatter


@pytest.mark.parametrize(("pages", "ends_by"), [(0, 0.95), (80_000, 1.0)])
def test_what_is_gained_while_memory_is_taken_anew_may_not_last(pages: int, ends_by: float) -> None:
    def found(lasting: float) -> Ratio:
        taken = turns(rounds=2, baseline=100.0, tuned=150.0)
        for name, faults in ((BASELINE, 80_000), (TUNED, pages)):
            for windows in taken.windows[name]:
                windows[:] = [replace(each, page_faults=faults) for each in windows]
        taken.calm_share = lasting
        speedup = judged(taken).speedup
        assert speedup is not None
        return speedup

    lasts, ends = found(1.0), found(0.7)
    assert (ends.low < ends_by * lasts.low) if pages == 0 else ends.low == lasts.low
    assert (ends.estimate, ends.high) == (lasts.estimate, lasts.high)


def test_workers_that_live_on_while_the_dataset_is_changed_are_another_training():
    taken = turns(baseline=100, tuned=160)
    kept = {"num_workers": 2, "persistent_workers": True}
    assert judged(taken, kept).outcome == "faster"
    loader = replace(builders.seen().loader, changing=True)
    taken.seen[TUNED] = replace(builders.seen(), loader=loader)  # it got as far as that
    verdict = judged(taken, kept)
    assert verdict.trains_otherwise and verdict.suspect == "persistent_workers"
    assert "the dataset is changed between epochs" in verdict.reason
    assert judged(taken, {"num_workers": 2}).outcome == "faster"
    assert judged(taken, kept, may_differ=True).suspect == ""


def test_a_thread_at_a_pace_of_its_own_leaves_open_whether_it_is_the_same_training():
    taken = turns(baseline=100, tuned=160)
    assert judged(taken).parity.same_training
    taken.beside = "act, train.py:22"
    verdict = judged(taken)
    assert verdict.outcome == "faster" and verdict.parity.same_training is None
    assert "(act, train.py:22) works beside the training" in verdict.parity.reason


def with_fewer_steps(taken, share, *, loads=False):
    """`taken`, whose tuned program had the same samples in so many of its steps; whether there is a
    loader that makes batches of one size.
    """
    if not loads:
        taken.seen = {name: replace(seen, loader=None) for name, seen in taken.seen.items()}
    taken.windows[TUNED] = [
        [replace(each, steps=round(share * each.steps)) for each in windows]
        for windows in taken.windows[TUNED]
    ]
    return taken


def test_steps_that_have_more_samples_tell_less_of_a_gain():
    same, more = (
        judged(with_fewer_steps(turns(baseline=100, tuned=140), share)) for share in (1, 2 / 3)
    )
    assert same.outcome == "faster" and "times as many samples" not in same.reason
    assert more.outcome == "no_gain" and "A step had 1.5 times as many samples" in more.reason
    assert more.speedup.estimate == same.speedup.estimate and more.speedup.low < 0.7
    assert more.is_undecided


def test_steps_of_more_batches_of_one_size_say_as_much_of_a_gain():
    found = judged(with_fewer_steps(turns(baseline=100, tuned=140), 2 / 3, loads=True))
    assert found.outcome == "faster" and "times as many samples" not in found.reason


def test_larger_batches_have_more_samples_by_themselves():
    taken = with_fewer_steps(turns(baseline=100, tuned=140), 2 / 3, loads=True)
    seen = taken.seen[TUNED]
    taken.seen[TUNED] = replace(seen, loader=replace(seen.loader, batch_size=1024))
    found = judged(taken, {"batch_size": 1024}, may_differ=True)
    assert found.outcome == "faster" and "times as many samples" not in found.reason


def validating(taken, seconds):
    """`taken`, with so many seconds of validation in every other turn of each contestant."""
    for name, rounds in taken.windows.items():
        taken.windows[name] = [
            [
                replace(each, validations=turn % 2, validation_seconds=(turn % 2) * seconds[name])
                for turn, each in enumerate(windows)
            ]
            for windows in rounds
        ]
    return taken


def test_a_gain_is_told_with_the_validations_of_the_turns():
    seconds = {BASELINE: 0.8, TUNED: 0.8}  # as long as the steps
    found = judged(validating(turns(baseline=100, tuned=150), seconds))
    assert found.outcome == "faster"
    assert found.validations.share == pytest.approx(0.5, abs=0.06)
    assert found.validations.whole == pytest.approx(1 / (0.5 / 1.5 + 0.5), abs=0.05)


def test_steps_that_gain_less_than_the_validations_lose_are_no_gain():
    seconds = {BASELINE: 0.8, TUNED: 1.6}
    found = judged(validating(turns(baseline=100, tuned=150), seconds))
    assert found.outcome == "no_gain"
    assert "validation takes 1.6 s with them, and 0.8 s" in found.reason
    assert found.slows and found.is_withheld and not found.config


def test_validations_that_only_one_of_them_came_to_say_nothing():
    taken = turns(rounds=1, baseline=100, tuned=150)
    first = taken.windows[TUNED][0]
    first[0] = replace(first[0], validations=1, validation_seconds=9.0)
    assert judged(taken).validations is None
