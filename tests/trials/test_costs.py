"""What a trial takes is weighed against what it is expected to gain."""

from dataclasses import replace

import pytest

from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure
from autotune.profiling.profile import Ceiling
from autotune.trials.costs import TrialCosts, costs_of_trials
from autotune.trials.ending import ending
from autotune.trials.front import ENERGY, MEMORY, front, least_energy
from autotune.trials.knowledge import planner_for
from autotune.trials.trial import CEILING, EXHAUSTED, PATIENCE, Trial
from tests import builders
from tests.trials.test_planner import WORKERS, program, space, trial

COMPILED: Config = {"compile": "default"}
COMPILING = space(compile=("off", "default"), channels_last=(False, True))


def heavy(number: int, config: Config, rate: float, peak_bytes: int | None) -> Trial:
    outcome = builders.measurement(rate, peak_bytes=peak_bytes)
    return Trial(number=number, config=config, outcome=outcome, seconds=1.0)


class TestCosts:
    costs = costs_of_trials(COMPILING, program(data=0.05, waiting=False), 4.0)

    def test_compiling_takes_longer_than_other_settings(self) -> None:
        plain, compiled = self.costs.seconds([{"channels_last": True}, COMPILED])
        assert plain == 4.0
        assert compiled > 20 + plain

    def test_what_a_trial_took_is_better_known_than_what_it_should_take(self) -> None:
        tried = [
            replace(trial(1, {"channels_last": True}, 100), seconds=3.0),
            replace(trial(2, COMPILED, 100), seconds=10.0),
        ]
        assert self.costs.learned(tried).seconds([{"channels_last": True}, COMPILED]) == [3.0, 10.0]

    def test_a_trial_that_hung_says_nothing_of_what_others_take(self) -> None:
        hung = Trial(
            number=1,
            config={"channels_last": True},
            outcome=Failure(kind="hung", reason="no sign of its first training step"),
            seconds=30.0,
        )
        assert self.costs.learned([hung]).seconds([{"channels_last": True}]) == [4.0]

    def test_trials_whose_time_is_not_known_teach_nothing(self) -> None:
        assert (
            TrialCosts(usual_seconds=4.0)
            .learned([replace(trial(1, {"threads": 1}, 1), seconds=0.0)])
            .usual_seconds
            == 4.0
        )


def test_what_takes_long_is_tried_after_what_gains_nearly_as_much_at_once() -> None:
    planner = planner_for(COMPILING, program(data=0.01, waiting=False), trial_seconds=4.0)
    first = planner.propose([trial(0, {}, 100)])
    assert first is not None and "compile" not in first.config


def test_what_takes_longer_than_what_is_left_is_not_tried() -> None:
    only = space(compile=("off", "default"))
    planner = planner_for(only, program(data=0.01, waiting=False))
    assert planner.propose([trial(0, {}, 100)], seconds_left=600.0) is not None
    assert planner.propose([trial(0, {}, 100)], seconds_left=10.0) is None


@pytest.mark.parametrize(("patience_seconds", "why"), [(1.0, PATIENCE), (1000.0, None)])
def test_a_search_ends_when_what_is_left_is_not_worth_its_time(
    patience_seconds: float, why: str | None
) -> None:
    planner = planner_for(space(compile=("off", "default")), program(data=0.01, waiting=False))
    trials = [trial(0, {}, 100)]
    found = ending(planner, trials, planner.propose(trials), patience_seconds)
    assert (found.why if found else None) == why
    assert found is None or "Too little is expected" in found.reason


def test_where_nothing_is_expected_no_gain_is_told() -> None:
    planner = planner_for(space(compile=("off", "default")), program(data=0.01, waiting=False))
    trials = [trial(0, {}, 100)]
    proposal = planner.propose(trials)
    assert proposal is not None
    found = ending(planner, trials, replace(proposal, expected_gain=1e-4), 0.0)
    assert found is not None and found.reason.startswith("Nothing is expected of what is left.")


def test_what_was_not_tried_because_it_takes_long_is_said() -> None:
    planner = planner_for(COMPILING, program(data=0.01, waiting=False), trial_seconds=4.0)
    trials = [trial(0, {}, 100), trial(1, {"channels_last": True}, 90)]
    found = ending(planner, trials, planner.propose(trials, seconds_left=10.0), 1e9)
    assert found is not None and found.why == EXHAUSTED
    assert found.reason.endswith("compile was not tried: a trial of it takes about 46 s.")


@pytest.mark.parametrize("modes", [("default", "max-autotune"), ("max-autotune", "default")])
def test_of_what_takes_long_the_least_is_said(modes: tuple[str, ...]) -> None:
    whole = space(compile=("off", *modes))
    planner = planner_for(whole, program(data=0.01, waiting=False), trial_seconds=4.0)
    assert planner.too_dear([]) == {"compile": pytest.approx(48.5)}


def test_a_search_ends_when_nothing_is_left() -> None:
    planner = planner_for(space(channels_last=(False, True)), program(data=0.3, waiting=True))
    trials = [trial(0, {}, 100), trial(1, {"channels_last": True}, 50)]
    found = ending(planner, trials, planner.propose(trials), 1e9)
    assert found is not None and found.why == EXHAUSTED


class TestCeiling:
    """A program that reaches 200 samples/s with batches always at hand."""

    profile = replace(
        program(data=0.5, waiting=True),
        ceilings=(Ceiling(name="compute", samples_per_second=200.0, max_gain=2.0),),
    )
    trials = (trial(0, {}, 100), trial(1, {"num_workers": 4}, 197))

    def test_loading_is_done_with_once_training_is_all_that_takes_time(self) -> None:
        planner = planner_for(space(num_workers=WORKERS), self.profile)
        found = ending(planner, list(self.trials), planner.propose(self.trials), 1e9)
        assert found is not None and found.why == CEILING
        assert "num_workers 4" in found.reason

    def test_what_makes_training_itself_faster_is_still_tried(self) -> None:
        both = space(num_workers=WORKERS, channels_last=(False, True))
        proposal = planner_for(both, self.profile).propose(self.trials)
        assert proposal is not None and proposal.config.get("channels_last") is True

    def test_a_ceiling_that_was_passed_was_measured_too_low(self) -> None:
        beyond = (*self.trials, trial(2, {"num_workers": 8}, 300))
        assert planner_for(space(num_workers=WORKERS), self.profile).at_ceiling(beyond[::2]) is None


class TestMemory:
    searched = space(checkpointing=(0, 2), channels_last=(False, True))
    planner = planner_for(searched, program(data=0.01, waiting=False), memory_limit_bytes=1000)

    def test_what_needs_too_much_is_never_the_best(self) -> None:
        trials = [heavy(0, {}, 100, 900), heavy(1, {"channels_last": True}, 150, 1100)]
        assert [each.trial.number for each in self.planner.ranked(trials)] == [0]

    def test_what_needs_nobody_knows_how_much_is_never_the_best(self) -> None:
        unknown = heavy(1, {"channels_last": True}, 150, None)
        for own in (900, None):  # the program as it is needs what it needs
            ranked = self.planner.ranked([heavy(0, {}, 100, own), unknown])
            assert [each.trial.number for each in ranked] == [0]

    def test_where_the_program_itself_needs_too_much_memory_is_saved_first(self) -> None:
        proposal = self.planner.propose([heavy(0, {}, 100, 1100)])
        assert proposal is not None and proposal.config.get("checkpointing") == 2

    def test_what_saves_memory_on_top_of_too_much_is_still_tried(self) -> None:
        trials = [
            heavy(0, {}, 100, 900),
            heavy(1, {"channels_last": True}, 150, 1100),
            heavy(2, {"checkpointing": 2}, 90, 500),
        ]
        proposal = self.planner.propose(trials)
        assert proposal is not None
        assert proposal.config == {"checkpointing": 2, "channels_last": True}


def test_the_front_is_what_no_trial_beats_in_both_speed_and_memory() -> None:
    trials = [
        heavy(0, {}, 100, 900),
        heavy(1, {"threads": 1}, 90, 950),
        heavy(2, {"checkpointing": 2}, 70, 500),
        heavy(3, {"channels_last": True}, 150, 1200),
        trial(4, {"threads": 2}, None),
    ]
    assert front(trials) == (2, 0, 3)


def test_energy_may_be_set_against_speed_alone_or_beside_memory() -> None:
    figures = [(100, 900, 2.0), (90, 950, 2.0), (70, 500, 3.0), (150, 1200, 1.5), (160, 800, None)]
    trials = [
        Trial(
            number=number,
            config={"threads": number} if number else {},
            outcome=builders.measurement(rate, peak_bytes=peak, joules_per_sample=joules),
            seconds=1.0,
        )
        for number, (rate, peak, joules) in enumerate(figures)
    ]
    assert front(trials, (ENERGY,)) == (3,)
    assert front(trials, (ENERGY, MEMORY)) == (3, 0, 2)


def test_the_least_energy_is_of_what_is_no_slower_than_the_program_and_may_be_chosen() -> None:
    found = least_energy(builders.energies(), lambda _: True)
    assert found is not None and found.number == 5
    found = least_energy(builders.energies(), lambda trial: trial.number != 5)
    assert found is not None and found.number == 9
    slow, own = builders.energies()[5], builders.trial(0, {}, 400.0)
    assert least_energy((own, slow), lambda _: True) is None
    assert least_energy(builders.trials(), lambda _: True) is None


def test_the_best_of_many_is_not_the_luckiest() -> None:
    """A rate that was hardly measured is drawn to what the model expects of it."""
    searched = space(micro_batches=(1, 2), channels_last=(False, True))
    lucky = builders.measurement(120.0, interval=(50.0, 290.0))
    trials = [
        trial(0, {}, 100),
        trial(1, {"channels_last": True}, 112),
        Trial(number=2, config={"micro_batches": 2}, outcome=lucky, seconds=1.0),
    ]
    best = planner_for(searched, program(data=0.01, waiting=True)).ranked(trials)[0]
    assert best.trial.number == 1
