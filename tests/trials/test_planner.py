"""The planner knows from the profile what a sampler would have to guess."""

import math
from dataclasses import replace

import numpy as np
import pytest

from autotune.knobs.knob import Config, Expectation, Value
from autotune.measurement.measurement import Failure, Measurement
from autotune.profiling.profile import Ceiling, Profile
from autotune.trials.costs import TrialCosts
from autotune.trials.knowledge import MOST_CANDIDATES, costs_of, planner_for
from autotune.trials.loop import Costs
from autotune.trials.performance import Measured, PerformanceModel, expected_improvement
from autotune.trials.planner import Planner
from autotune.trials.space import Space
from autotune.trials.trial import Trial
from tests import builders

WORKERS = (0, 1, 2, 4, 8, 16)
COSTS = Costs(
    loader=0.004,
    loader_processor=0.001,
    compute=0.005,
    optimizer=0.001,
    copy=0.0,
    other=0.0,
    batch=32,
    cores=4,
)


def program(*, data: float, waiting: bool, cores: int = 2) -> Profile:
    """A program of 100 samples/s without workers that spends `data` of its step on the loader."""
    return builders.profile(
        machine=builders.machine(cores=cores, device="cpu"),
        samples_per_second=100.0,
        phases={"data": data, "forward": 0.6 * (1 - data), "backward": 0.4 * (1 - data)},
        ceilings=(
            Ceiling(name="data", samples_per_second=100 / data, max_gain=1 / data),
            Ceiling(name="compute", samples_per_second=100 / (1 - data), max_gain=1 / (1 - data)),
        ),
        data_processor_share=0.05 if waiting else 1.0,
        seen=replace(builders.seen(), samples_per_step=32.0),
    )


def space(**choices: tuple[Value, ...]) -> Space:
    own: dict[str, Value] = {name: values[0] for name, values in choices.items()}
    return Space(choices=choices, own=own, skipped=())


def trial(number: int, config: Config, rate: float | None) -> Trial:
    outcome: Measurement | Failure = Failure(kind="crashed", reason="It crashed.")
    if rate is not None:
        outcome = builders.measurement(rate)
    return Trial(number=number, config=config, outcome=outcome, seconds=1.0)


def test_a_loader_that_waits_is_given_many_workers_at_once() -> None:
    profile = program(data=0.95, waiting=True)
    proposal = planner_for(space(num_workers=WORKERS), profile).propose([trial(0, {}, 100)])
    assert proposal is not None
    assert proposal.config["num_workers"] in (8, 16)
    assert proposal.expected_gain > 1


def test_a_loader_that_decodes_is_given_workers_and_fewer_threads_together() -> None:
    profile = program(data=0.5, waiting=False)
    proposal = planner_for(space(num_workers=WORKERS, threads=(2, 1)), profile).propose(
        [trial(0, {}, 100)]
    )
    assert proposal is not None
    assert proposal.config["threads"] == 1
    assert proposal.config["num_workers"] != 0


@pytest.mark.parametrize(("one_thread", "threads"), [(1.4, 1), (0.6, 2), (None, 2)])
def test_one_thread_is_tried_where_the_profile_found_it_faster(
    one_thread: float | None, threads: int
) -> None:
    profile = program(data=0.02, waiting=False)
    seen = replace(profile.seen, threads=2)
    profile = replace(profile, seen=seen, probes={"one_thread": one_thread} if one_thread else {})
    planner = planner_for(space(threads=(2, 1), channels_last=(False, True)), profile)
    proposal = planner.propose([trial(0, {}, 100)])
    assert proposal is not None
    assert proposal.config.get("threads", 2) == threads


def test_a_worker_that_gains_less_than_it_should_has_threads_waiting_for_each_other() -> None:
    # Of a real program: alone, two threads computed 1.6 times as fast as one; beside a worker one
    # was 1.4 times as fast.
    profile = replace(program(data=0.39, waiting=False), probes={"one_thread": 0.62})
    profile = replace(profile, seen=replace(profile.seen, threads=2))
    planner = planner_for(space(threads=(2, 1), num_workers=(0, 1, 2)), profile)
    proposal = planner.propose([trial(0, {}, 100), trial(1, {"num_workers": 1}, 105)])
    assert proposal is not None
    assert proposal.config.get("threads") == 1


@pytest.mark.parametrize(
    ("one_thread", "threads", "power"),
    [(0.5, 2, 1.0), (2.0, 4, -0.5), (0.5, 8, 1.0), (2.0, 8, 0.0), (0.5, 1, None), (None, 2, None)],
)
def test_what_threads_gain_is_by_those_that_have_cores(
    one_thread: float | None, threads: int, power: float | None
) -> None:
    profile = program(data=0.02, waiting=False, cores=4)
    profile = replace(
        profile,
        seen=replace(profile.seen, threads=threads),
        probes={"one_thread": one_thread} if one_thread else {},
    )
    assert costs_of(profile).threads_power == (power and pytest.approx(power))


@pytest.mark.parametrize(
    ("phases", "step_seconds", "least"),
    [
        ({"forward": 0.4, "backward": 0.5, "optimizer": 0.1}, 0.001, 0.8),
        ({"forward": 0.2, "backward": 0.3, "optimizer": 0.5}, 1.0, 0.4),
        ({"forward": 0.4, "backward": 0.5, "optimizer": 0.1}, 1.0, 0.0),
    ],
    ids=["launching", "the optimizer", "computing"],
)
def test_a_larger_batch_gains_where_much_is_paid_once_a_step(
    phases: dict[str, float], step_seconds: float, least: float
) -> None:
    profile = replace(
        program(data=0.02, waiting=False), phases=phases, step_seconds=step_seconds, ceilings=()
    )
    planner = planner_for(space(batch_size=(32, 64, 128)), profile)
    proposal = planner.propose([trial(0, {}, 100)])
    assert proposal is not None
    assert proposal.config == {"batch_size": 128}
    assert least < proposal.expected_gain < least + 1.5


def test_a_change_from_which_nothing_is_expected_is_left_out() -> None:
    profile = replace(program(data=0.95, waiting=True), phases={"data": 0.95, "forward": 0.05})
    searched = space(num_workers=WORKERS, optimizer=("forloop", "fused"))
    proposal = planner_for(searched, profile).propose([trial(0, {}, 100)])
    assert proposal is not None
    assert list(proposal.config) == ["num_workers"]


def test_what_a_trial_disproved_is_not_expected_of_its_likes() -> None:
    profile = program(data=0.05, waiting=False)
    planner = planner_for(space(channels_last=(False, True), num_workers=(0, 1)), profile)
    first = planner.propose([trial(0, {}, 100)])
    slower = trial(1, {"channels_last": True}, 50)
    second = planner.propose([trial(0, {}, 100), slower])
    assert first is not None and second is not None
    assert first.config.get("channels_last") is True
    assert "channels_last" not in second.config
    assert second.expected_gain < first.expected_gain


def test_what_failed_is_not_tried_with_more_on_top_of_it() -> None:
    profile = program(data=0.5, waiting=True)
    planner = planner_for(space(num_workers=WORKERS, channels_last=(False, True)), profile)
    trials = [trial(0, {}, 100), trial(1, {"channels_last": True}, None)]
    while (proposal := planner.propose(trials)) is not None:
        assert "channels_last" not in proposal.config
        trials.append(trial(len(trials), proposal.config, 100))
    assert len(trials) == 2 + len(WORKERS) - 1


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (
            "crashed",
            "RuntimeError: view size is not compatible with input tensor's size and stride",
        ),
        ("void", "channels_last = true was asked for, and the run had false"),
    ],
)
def test_what_a_failure_is_blamed_on_is_not_tried_again(kind: str, why: str) -> None:
    profile = program(data=0.5, waiting=True)
    planner = planner_for(space(num_workers=WORKERS, channels_last=(False, True)), profile)
    both: Config = {"num_workers": 2, "channels_last": True}
    failed = Trial(number=1, config=both, outcome=Failure(kind=kind, reason=why), seconds=1.0)
    trials = [trial(0, {}, 100), failed]
    while (proposal := planner.propose(trials)) is not None:
        assert "channels_last" not in proposal.config
        trials.append(trial(len(trials), proposal.config, 100))
    assert {"num_workers": 2} in [each.config for each in trials]


def test_of_settings_that_fail_without_a_word_half_are_tried_at_a_time() -> None:
    """The culprit is found by halves, and the others are measured."""
    profile = program(data=0.5, waiting=False)
    searched = space(
        num_workers=(0, 1),
        threads=(2, 1),
        channels_last=(False, True),
        optimizer=("forloop", "fused"),
    )
    planner = planner_for(searched, profile)
    why = Failure(kind="crashed", reason="RuntimeError: no")
    trials = [trial(0, {}, 100)]
    whole: Config = {"num_workers": 1, "threads": 1, "channels_last": True, "optimizer": "fused"}
    trials.append(Trial(number=1, config=whole, outcome=why, seconds=1.0))
    while (proposal := planner.propose(trials)) is not None:
        fails = "channels_last" in proposal.config
        next_trial = trial(len(trials), proposal.config, 100)
        trials.append(replace(next_trial, outcome=why) if fails else next_trial)
    failed = [each for each in trials if each.outcome == why]
    assert len(failed) <= 3
    assert len(trials) - len(failed) == 2 * 2 * 2


def test_what_fails_together_only_is_tried_by_itself() -> None:
    profile = program(data=0.1, waiting=False)
    searched = space(
        num_workers=(0, 1), channels_last=(False, True), optimizer=("forloop", "fused")
    )
    planner = planner_for(searched, profile)
    why = Failure(kind="crashed", reason="RuntimeError: no")
    guilty = {"channels_last", "optimizer"}
    trials = [trial(0, {}, 100), trial(1, {"optimizer": "fused"}, 100)]
    together: Config = {"channels_last": True, "optimizer": "fused"}
    for config in (together, {**together, "num_workers": 1}):
        trials.append(Trial(number=len(trials), config=config, outcome=why, seconds=1.0))
    while (proposal := planner.propose(trials)) is not None:
        assert not guilty <= set(proposal.config)
        trials.append(trial(len(trials), proposal.config, 100))
    assert {"channels_last": True} in [each.config for each in trials]


def test_one_failure_of_two_settings_does_not_condemn_either() -> None:
    profile = program(data=0.1, waiting=False)
    searched = space(channels_last=(False, True), optimizer=("forloop", "fused"))
    planner = planner_for(searched, profile)
    both: Config = {"channels_last": True, "optimizer": "fused"}
    why = Failure(kind="crashed", reason="RuntimeError: no")
    trials = [trial(0, {}, 100), Trial(number=1, config=both, outcome=why, seconds=1.0)]
    while (proposal := planner.propose(trials)) is not None:
        trials.append(trial(len(trials), proposal.config, 100))
    tried = [each.config for each in trials[2:]]
    assert {"channels_last": True} in tried and {"optimizer": "fused"} in tried


def test_what_ran_out_of_memory_is_tried_with_what_saves_some() -> None:
    profile = program(data=0.1, waiting=False)
    searched = space(channels_last=(False, True), checkpointing=(0, -1))
    planner = planner_for(searched, profile)
    large = Failure(kind="out_of_memory", reason="CUDA out of memory.")
    failed = Trial(number=1, config={"channels_last": True}, outcome=large, seconds=1.0)
    trials = [trial(0, {}, 100), failed]
    while (proposal := planner.propose(trials)) is not None:
        trials.append(trial(len(trials), proposal.config, 100))
    assert {"channels_last": True, "checkpointing": -1} in [each.config for each in trials]


def test_a_lost_device_is_held_against_no_setting() -> None:
    profile = program(data=0.5, waiting=True)
    planner = planner_for(space(num_workers=WORKERS, channels_last=(False, True)), profile)
    lost = Failure(kind="device_lost", reason="CUDA unknown error")
    failed = Trial(number=1, config={"num_workers": 2}, outcome=lost, seconds=1.0)
    trials = [trial(0, {}, 100), failed]
    while (proposal := planner.propose(trials)) is not None:
        trials.append(trial(len(trials), proposal.config, 100))
    assert {"num_workers": 2, "channels_last": True} in [each.config for each in trials]


def test_every_configuration_is_proposed_once_and_then_none() -> None:
    profile = program(data=0.5, waiting=True)
    searched = space(num_workers=(0, 1, 2), threads=(2, 1), channels_last=(False, True))
    planner, trials = planner_for(searched, profile), [trial(0, {}, 100)]
    while (proposal := planner.propose(trials)) is not None:
        trials.append(trial(len(trials), proposal.config, 100))
    assert len({frozenset(each.config.items()) for each in trials}) == searched.size


def test_trials_of_another_space_are_learned_from() -> None:
    planner = planner_for(space(num_workers=(0, 1)), program(data=0.5, waiting=True))
    earlier = trial(1, {"num_workers": 4, "threads": 1}, 200)
    assert planner.propose([trial(0, {}, 100), earlier]) is not None


def test_a_space_too_large_to_look_at_whole_still_has_the_neighbours_of_the_best() -> None:
    profile = program(data=0.9, waiting=True)
    large = space(
        num_workers=tuple(range(17)),
        threads=tuple(range(1, 17)),
        prefetch_factor=tuple(range(2, 12)),
        channels_last=(False, True),
        cudnn_benchmark=(False, True),
        set_to_none=(False, True),
    )
    assert large.size > MOST_CANDIDATES
    best = trial(1, {"num_workers": 9, "threads": 3}, 900)
    assert planner_for(large, profile).propose([trial(0, {}, 100), best]) is not None


def test_the_loaders_cost_is_that_of_one_process() -> None:
    profile = program(data=0.5, waiting=True)
    assert profile.seen.loader is not None
    with_workers = replace(profile.seen, loader=replace(profile.seen.loader, num_workers=4))
    alone, together = costs_of(profile), costs_of(replace(profile, seen=with_workers))
    assert math.isclose(alone.loader, 0.005)
    assert math.isclose(together.loader, 4 * alone.loader)
    assert math.isclose(together.loader_processor, alone.loader_processor)


def test_workers_that_have_all_processors_wait_for_nothing_else() -> None:
    profile = program(data=0.5, waiting=False)
    assert profile.seen.loader is not None
    with_workers = replace(profile.seen, loader=replace(profile.seen.loader, num_workers=8))
    costs = costs_of(replace(profile, seen=with_workers, data_processor_share=1.9))
    assert math.isclose(costs.loader, 1.9 * 0.005)
    assert math.isclose(costs.loader_processor, costs.loader)


def test_the_model_agrees_with_the_profile_before_any_trial() -> None:
    model = PerformanceModel(COSTS, {"num_workers": 0}, [{"num_workers": 0}], ())
    means, _ = model.fit([Measured(place=0, log_rate=math.log(100), sd=0.05)])
    assert math.isclose(math.exp(means[0]), 100, rel_tol=0.01)


def test_threads_beyond_the_cores_are_expected_to_slow_each_other_down() -> None:
    own: dict[str, Value] = {"threads": 8}
    candidates: list[dict[str, Value]] = [{"threads": number} for number in (8, 4, 2, 1)]
    model = PerformanceModel(replace(COSTS, cores=2), own, candidates, ())
    rates, _ = model.fit([Measured(place=0, log_rate=math.log(100.0), sd=0.05)])
    eight, four, two, one = np.exp(rates)
    assert 1.2 * eight < four and 1.2 * four < two and one < two


def test_four_measurements_of_one_setting_are_one_with_half_the_noise() -> None:
    expected = [(("switch", True), Expectation(phase="compute", sd=0.2))]
    model = PerformanceModel(COSTS, {}, [{}, {"switch": True}], expected)
    four = [Measured(place=1, log_rate=rate, sd=0.1) for rate in (4.6, 4.7, 4.8, 4.9)]
    found = model.fit([Measured(place=0, log_rate=4.6, sd=0.05), *four])
    alike = model.fit(
        [Measured(place=place, log_rate=rate, sd=0.05) for place, rate in ((0, 4.6), (1, 4.75))]
    )
    assert np.allclose(found, alike)


def test_a_setting_may_be_expected_to_change_several_phases() -> None:
    """Which of them it did change is told by what it was tried with."""
    both = [(("switch", True), Expectation(phase=phase, sd=0.3)) for phase in ("data", "compute")]
    candidates: list[Config] = [
        {"num_workers": workers, "switch": on} for workers in (0, 4) for on in (False, True)
    ]
    model = PerformanceModel(COSTS, {"num_workers": 0, "switch": False}, candidates, both)
    rates = ((0, 100), (1, 142), (2, 167))  # loading takes a quarter of its time with it
    means, _ = model.fit(
        [Measured(place=place, log_rate=math.log(rate), sd=0.02) for place, rate in rates]
    )
    only_compute = [(("switch", True), Expectation(phase="compute", sd=0.3))]
    wrong, _ = PerformanceModel(
        COSTS, {"num_workers": 0, "switch": False}, candidates, only_compute
    ).fit([Measured(place=place, log_rate=math.log(rate), sd=0.02) for place, rate in rates])
    assert means[3] < wrong[3]


@pytest.mark.parametrize(("mean", "gain"), [(-2.0, 0.0), (0.0, 0.04), (1.0, 1.0)])
def test_expected_improvement_counts_being_worse_as_nothing(mean: float, gain: float) -> None:
    found = expected_improvement(np.array([mean]), np.array([0.1]), 0.0)
    assert math.isclose(found[0], gain, abs_tol=0.001)


@pytest.mark.parametrize("kind", ["busy", "no_space", "device_lost"])
def test_what_met_a_busy_machine_says_nothing_of_what_is_like_it(kind: str) -> None:
    profile = program(data=0.5, waiting=True)
    planner = planner_for(space(num_workers=WORKERS, channels_last=(False, True)), profile)
    passing = Failure(kind=kind, reason="other work")
    trials = [
        trial(0, {}, 100),
        Trial(number=1, config={"num_workers": 2}, outcome=passing, seconds=1.0),
    ]
    while (proposal := planner.propose(trials)) is not None:
        trials.append(trial(len(trials), proposal.config, 100))
    tried = [each.config for each in trials]
    assert {"num_workers": 2, "channels_last": True} in tried
    assert tried.count({"num_workers": 2}) == 1


def test_what_takes_long_to_start_must_fit_twice_since_it_is_judged_too() -> None:
    trials = [trial(0, {}, 100)]
    planner = Planner(
        COSTS,
        {"compile": "off"},
        [{"compile": "default"}],
        [(("compile", "default"), Expectation(phase="compute", log_mean=-0.5, sd=0.1))],
        trial_costs=TrialCosts(usual_seconds=4.0, delay_seconds={("compile", "default"): 50.0}),
    )
    for left, proposed in ((110.0, True), (100.0, False)):
        assert planner.is_late({"compile": "default"}, left) is not proposed
        assert (planner.propose(trials, seconds_left=left) is not None) is proposed


def test_workers_that_start_anew_in_short_epochs_are_done_without() -> None:
    given: dict[str, float] = {"epoch": 1_400.0, "start": 0.03}
    at_hand = replace(COSTS, loader=1e-5, loader_processor=1e-5, compute=5e-5, optimizer=1e-6)
    candidates = [{"num_workers": count} for count in (8, 1, 0)]
    own = {"num_workers": 8, "persistent_workers": False}
    means, _ = PerformanceModel(replace(at_hand, **given), own, candidates, ()).fit(
        [Measured(place=0, log_rate=math.log(4_000), sd=0.05)]
    )
    assert means[2] > means[1] > means[0]
    kept = [{**each, "persistent_workers": True} for each in candidates]
    lasting, _ = PerformanceModel(replace(at_hand, **given), own, kept, ()).fit([])
    anew, _ = PerformanceModel(replace(at_hand, **given), own, candidates, ()).fit([])
    assert lasting[0] > anew[0]
    assert lasting[2] == anew[2]
