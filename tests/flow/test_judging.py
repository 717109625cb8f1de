"""What is handed back of what was judged, and why where there is no answer."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import judging, unanswered
from autotune.flow.context import Options
from autotune.flow.trying import Found
from autotune.knobs.knob import Config
from autotune.measurement.interleaved.turns import Turns
from autotune.measurement.measurement import Failure
from autotune.measurement.ratios import Ratio
from autotune.outputs.patch import Emission
from autotune.profiling.profile import PROCESSORS_TAKEN, TOO_FEW_STEPS, Doubt
from autotune.source.edits import EditOutcome, ProcessStatement
from autotune.trials.trial import BUDGET, EXHAUSTED, PATIENCE, REPEATED, Ending, Trial
from autotune.verdict import BASELINE, DELIVERED, TUNED, Delivered, Verdict
from autotune.verdict.parity import Difference, may_be_chance
from tests import builders
from tests.trials.test_study import SPACE


def test_only_a_gain_that_falls_with_it_is_worth_the_run() -> None:
    parted = builders.parity(same_training=False, steps=90, difference=Difference.COURSE)
    exact = builders.parity(same_training=False, steps=90, difference=Difference.STEP)
    scattered = builders.parity(same_training=False, steps=90, difference=Difference.SCATTER)
    gain = Ratio(estimate=1.5, low=1.2, high=1.9)
    loss = Ratio(estimate=0.8, low=0.7, high=0.9)
    open_ended = Ratio(estimate=1.2, low=0.9, high=1.6)

    def parted_of(**given: Any) -> list[str]:
        return list(judging._parted(builders.verdict(**given), may_be_chance))

    assert parted_of(parity=parted, speedup=gain) == [TUNED]
    assert parted_of(parity=parted, speedup=loss) == []
    assert parted_of(parity=parted, speedup=open_ended) == []
    assert parted_of(parity=exact, speedup=gain) == [TUNED]
    assert parted_of(parity=scattered, speedup=gain) == []
    assert parted_of(parity=None, speedup=gain) == []
    assert parted_of(speedup=gain) == []
    partly = Delivered(samples_per_second=1.0, speedup=gain, settings_observed=False, parity=parted)
    assert parted_of(speedup=gain, delivered=partly) == [DELIVERED]


def test_nothing_is_said_of_parted_losses_without_a_gain() -> None:
    gain, open_ended = (Ratio(estimate=1.5, low=low, high=1.9) for low in (1.2, 0.9))
    for difference in (Difference.COURSE, Difference.SCATTER):
        parted = builders.parity(same_training=False, reason="They part.", difference=difference)
        for speedup in (gain, open_ended):
            verdict = builders.verdict(outcome="no_gain", speedup=speedup, parity=parted)
            left = judging._left_open(verdict).parity
            assert left
            untold = difference is Difference.COURSE and speedup is open_ended
            assert left.same_training is (None if untold else False)
            assert ("not looked at" in left.reason) == untold
            partly = Delivered(
                samples_per_second=1.0, speedup=speedup, settings_observed=False, parity=parted
            )
            handed = judging._left_open(replace(verdict, delivered=partly)).delivered
            assert handed
            assert handed.parity
            assert handed.parity.same_training is (None if untold else False)
            assert ("not looked at" in handed.reason) == untold


@pytest.mark.parametrize("lost", [(), (TUNED,), (DELIVERED,)], ids=str)
def test_each_whose_losses_part_is_held_against_seeds_of_its_own(
    lost: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    gain = Ratio(estimate=1.5, low=1.2, high=1.9)
    parted = builders.parity(same_training=False, difference=Difference.COURSE)
    unknown = builders.parity(same_training=None)
    turns, lefts = Turns(), list[Any]()

    def decided() -> Verdict:
        found = {
            name: unknown if name in turns.pairs and name not in lost else parted
            for name in (TUNED, DELIVERED)
        }
        partly = Delivered(
            samples_per_second=1.0, speedup=gain, settings_observed=False, parity=found[DELIVERED]
        )
        return builders.verdict(speedup=gain, parity=found[TUNED], delivered=partly)

    def pairs(_context: Any, _parted: Any, own: Any, other: Any, left: Any) -> Any:
        lefts.append(left)
        yield [own], [other]

    monkeypatch.setattr(judging, "pairs_of_seeds", pairs)
    starts: Any = {name: name for name in (BASELINE, TUNED, DELIVERED)}
    context: Any = SimpleNamespace(options=Options())
    verdict = judging._with_seeds(context, turns, starts, decided(), decided)
    told = [TUNED] if TUNED in lost else [TUNED, DELIVERED]
    assert turns.pairs == {name: [([BASELINE], [name])] for name in told}
    assert len(set(map(id, lefts))) == 1  # they share the time that there is
    assert verdict.parity is (parted if TUNED in lost else unknown)


def test_workers_that_no_second_epoch_has_shown_to_live_on_are_not_judged() -> None:
    own = builders.seen().loader
    assert own is not None
    config: Config = {"num_workers": 2, "persistent_workers": True}
    for epochs, kept in ((1, {"num_workers": 2}), (2, config)):
        loader = replace(own, num_workers=2, persistent_workers=True, epochs=epochs)
        outcome = builders.measurement(9.0, seen=builders.seen(loader=loader))
        assert judging._shown(builders.trial(1, config, outcome)).config == kept


def test_a_patch_that_trains_otherwise_is_not_handed_back() -> None:
    edit = EditOutcome(knob="threads", edit=ProcessStatement(code="pass"), status="done")
    emission = Emission(sources={"/train.py": "pass"}, patch="+pass", edits=(edit,))
    for same in (True, None, False):
        delivered = Delivered(
            samples_per_second=1.0,
            speedup=None,
            settings_observed=False,
            reason="It did not train the same.",
            parity=builders.parity(same_training=same),
        )
        left = judging._handed_back(
            builders.verdict(outcome="faster", delivered=delivered), emission, failed=False
        )
        assert bool(left.patch) == (same is not False)
    assert left.edits[0].reason == "It did not train the same."


@pytest.mark.parametrize(
    ("failed", "speedup", "kept"),
    [(False, 1.3, True), (False, 1.05, False), (False, 0.6, False), (True, None, False)],
    ids=["faster", "perhaps", "slower", "failed"],
)
def test_a_part_of_the_settings_that_is_slower_or_fails_is_not_handed_back(
    failed: bool, speedup: float | None, kept: bool
) -> None:
    edit = EditOutcome(knob="threads", edit=ProcessStatement(code="pass"), status="done")
    emission = Emission(sources={"/train.py": "pass"}, patch="+pass", edits=(edit,))
    delivered = Delivered(
        samples_per_second=None,
        speedup=speedup and Ratio(estimate=speedup, low=0.9 * speedup, high=speedup),
        settings_observed=False,
        reason="num_workers was asked for",
    )
    verdict = builders.verdict(outcome="faster", delivered=delivered)
    left = judging._handed_back(verdict, emission, failed=failed)
    assert bool(left.patch) == kept
    if speedup == 0.6:
        assert "0.60×" in left.edits[0].reason


@pytest.mark.parametrize("ended_early", [True, False])
def test_a_program_that_ends_before_its_speed_is_known_has_no_answer(ended_early: bool) -> None:
    doubt = Doubt(name=TOO_FEW_STEPS, evidence="Only 2 steps were timed.", advice="")
    profiled = builders.profile(ended_early=ended_early, doubts=(doubt,))
    measured = Trial(
        number=1, config={"threads": 1}, outcome=builders.measurement(100.0), seconds=1.0
    )
    reason = unanswered.why_unknown(profiled, [measured])
    assert reason.startswith("The program ends before its speed can be told") is ended_early


@pytest.mark.parametrize(
    ("why", "tried", "outcome", "words"),
    [
        (PATIENCE, False, "no_gain", "No setting promises enough for a trial."),
        (BUDGET, False, "failed", "No setting was tried. It ended."),
        (REPEATED, False, "failed", "No setting was tried. It ended."),
        (EXHAUSTED, True, "no_gain", "No setting came out faster than the program as it is."),
    ],
)
def test_where_no_setting_was_tried_none_is_said_to_be_no_faster(
    why: str, tried: bool, outcome: str, words: str
) -> None:
    as_it_is = builders.trial(0, {}, 100.0)
    trials = (as_it_is, *[builders.trial(1, {"threads": 1}, 90.0)] * tried)
    found = Found(trials=trials, best=as_it_is, ending=Ending(why=why, reason="It ended."))
    machine = builders.machine()
    context: Any = SimpleNamespace(
        deadline=time.monotonic() + 60.0, machine=machine, options=Options()
    )
    verdict, _ = judging.judge(context, builders.profile(), SPACE, found)
    assert (verdict.outcome, verdict.reason) == (outcome, words)


def test_where_no_setting_could_be_held_to_the_memory_limit_that_is_said() -> None:
    of_unknown_size = builders.measurement(200.0, peak_bytes=None)
    trials = [
        builders.trial(0, {}, 100.0),
        builders.trial(1, {"num_workers": 2}, of_unknown_size),
        builders.trial(2, {"num_workers": 4}, Failure(kind="busy", reason="other work")),
    ]
    reason = unanswered.why_unknown(builders.profile(), trials, limited=True)
    assert reason.startswith("Of 2 settings tried none could be held to the memory limit")
    trials.append(builders.trial(3, {"threads": 1}, 90.0))
    assert not unanswered.why_unknown(builders.profile(), trials, limited=True)
    assert not unanswered.why_unknown(builders.profile(), trials[:2])


def test_what_is_faster_and_too_large_is_said_to_be() -> None:
    large = builders.measurement(250.0, peak_bytes=600 * builders.MIB)
    trials = [builders.trial(0, {}, 100.0), builders.trial(1, {"num_workers": 32}, large)]
    reason = unanswered.why_too_large(trials, 512 * builders.MIB)
    assert "the limit of 512 MiB" in reason
    assert "num_workers 32 came out 2.50× as fast and takes 600 MiB" in reason
    assert not unanswered.why_too_large(trials, 700 * builders.MIB)
    trials[0] = builders.trial(0, {}, 250.0)
    assert not unanswered.why_too_large(trials, 512 * builders.MIB)


def test_what_failed_by_itself_is_not_said_to_be_the_machines_doing() -> None:
    taken = Doubt(name=PROCESSORS_TAKEN, evidence="", advice="")
    outcomes: list[Any] = [Failure(kind="crashed", reason="no kernel")] * 4
    outcomes.append(builders.measurement(100.0, doubts=(taken,)))
    trials = [
        builders.trial(number, {"threads": number}, each) for number, each in enumerate(outcomes, 1)
    ]
    reason = unanswered.why_unknown(builders.profile(), trials)
    assert reason.startswith("None of the 5 settings tried could be measured undisturbed")
    assert reason.endswith("too busy for 1, and the others failed: no kernel")


@pytest.mark.parametrize(("spoilt", "said"), [(1, ""), (2, "only 2"), (3, "only 1"), (4, "none")])
def test_where_half_of_the_trials_were_spoilt_nothing_is_said_of_a_gain(
    spoilt: int, said: str
) -> None:
    taken = Doubt(name=PROCESSORS_TAKEN, evidence="", advice="")
    outcomes: list[Any] = [builders.measurement(100.0, doubts=(taken,))] * spoilt
    outcomes += [builders.measurement(90.0)] * (4 - spoilt)
    outcomes[0] = Failure(kind="busy", reason="other work") if spoilt < 4 else outcomes[0]
    trials = [
        builders.trial(number, {"threads": number}, each) for number, each in enumerate(outcomes, 1)
    ]
    reason = unanswered.why_unknown(builders.profile(), trials)
    assert reason.startswith("The machine was too busy: of 4") is bool(said)
    assert said in reason
