"""What the planner knows before the first trial, from the profile and from the knobs."""

import itertools
import math
import random
from collections.abc import Iterator

import numpy as np

from autotune.knobs import by_name
from autotune.knobs.knob import Config, Expectation, Value
from autotune.profiling.launching import launching_seconds
from autotune.profiling.profile import Profile
from autotune.profiling.starting import Starting, starting
from autotune.trials.costs import costs_of_trials
from autotune.trials.loop import OVERSUBSCRIBED, STRUCTURE, Costs, side_by_side
from autotune.trials.planner import Planner
from autotune.trials.space import Space

# Larger spaces are looked at in part: so many configurations by chance, and all that differ from
# the best so far in one setting.
MOST_CANDIDATES = 20_000
# Of the time that a drained loader takes, what is left for loading, however long workers start.
LEAST_LOADING = 0.1
ALL_BUSY = 0.8
# By what settings change launching is known to so much (logarithm); chosen.
LAUNCHING_SD = 0.4


def planner_for(
    space: Space,
    profile: Profile,
    *,
    trial_seconds: float = 1.0,
    memory_limit_bytes: int | None = None,
) -> Planner:
    """The planner of a search in `space` for the program of `profile`, whose trials usually take
    `trial_seconds`.
    """

    def neighbours(config: Config) -> Iterator[Config]:
        searched = {
            name: value for name, value in config.items() if value in space.choices.get(name, ())
        }  # an earlier search may have tried others
        for name, values in space.choices.items():
            for value in values:
                yield space.difference({**searched, name: value})

    ceiling = profile.ceiling("compute")
    return Planner(
        costs_of(profile),
        {**space.fixed, **space.own},
        _drawn(space),
        _expectations(space, profile),
        trial_costs=costs_of_trials(space, profile, trial_seconds),
        neighbours=neighbours,
        feeding_ceiling=ceiling.samples_per_second if ceiling else None,
        memory_limit_bytes=memory_limit_bytes,
        admits=space.admits,
    )


def _drawn(space: Space) -> Iterator[Config]:
    """Every configuration of `space`, or as many as can be looked at."""
    names, values = list(space.choices), list(space.choices.values())
    if space.size <= MOST_CANDIDATES:
        for combination in itertools.product(*values):
            yield space.difference(dict(zip(names, combination, strict=True)))
        return
    chance = random.Random(0)
    for _ in range(MOST_CANDIDATES):
        chosen = {name: chance.choice(of) for name, of in zip(names, values, strict=True)}
        yield space.difference(chosen)


def costs_of(profile: Profile) -> Costs:
    """What a sample of the profiled program costs, phase by phase."""
    seconds = 1 / profile.samples_per_second
    phases, loader, begins = profile.phases, profile.seen.loader, starting(profile)
    working, waiting = _loading(profile, begins)
    workers = loader.num_workers if loader else 0
    length = loader.dataset_length if loader else None
    compute, launch = _computed(profile, seconds)
    on_device = profile.machine.device != "cpu"
    return Costs(
        loader=working + waiting,
        loader_processor=working,
        compute=compute,
        launch=launch,
        optimizer=seconds * phases.get("optimizer", 0.0),
        copy=seconds * phases.get("copy", 0.0),
        other=seconds * phases.get("other", 0.0),
        batch=max(1.0, profile.seen.samples_per_step),
        cores=float(profile.machine.cores),
        threads_compute=not on_device,
        threads_power=_threads_power(profile),
        epoch=float(length or math.inf),
        start=begins.seconds / workers if begins else None,
    )


def _computed(profile: Profile, seconds: float) -> tuple[float, float]:
    """Seconds in which a sample is computed forward and backward, and in which the host launches
    that where a device computes; `seconds` are those of the whole sample. The two go on side by
    side, and together take what was timed.
    """
    share = profile.phases.get("forward", 0.0) + profile.phases.get("backward", 0.0)
    launching, busy = launching_seconds(profile), profile.gpu.busy_share if profile.gpu else None
    if not share or launching is None or busy is None:
        return seconds * share, 0.0
    part = share / (share + profile.phases.get("optimizer", 0.0))
    computed, launched = busy * part, launching / profile.step_seconds * part
    scale = share / float(side_by_side(np.array(computed), np.array(launched)))
    return seconds * computed * scale, seconds * launched * scale


def _loading(profile: Profile, begins: Starting | None) -> tuple[float, float]:
    """Seconds in which a sample keeps a single process busy that loads it, and in which that waits;
    from the drained loader where it was measured, less the start of its workers.
    """
    busy, drained = profile.data_processor_share or 0.0, profile.ceiling("data")
    if drained is None or not drained.samples_per_second:
        seconds = profile.phases.get("data", 0.0) / profile.samples_per_second
        working = seconds * min(1.0, busy)
        return working, seconds - working
    seconds = 1 / drained.samples_per_second
    if begins is not None:
        seconds = max(LEAST_LOADING * seconds, seconds - begins.seconds / begins.epoch_samples)
    loader = profile.seen.loader
    workers = max(1, loader.num_workers if loader else 0)
    processors = min(float(workers), float(profile.machine.cores))
    # Workers that have all processors wait for one of these, and for nothing else.
    crowded = workers > 1 and busy >= ALL_BUSY * processors
    waits = 0.0 if crowded else max(0.0, workers - busy)
    return seconds * min(busy, float(workers)), seconds * waits


def _threads_power(profile: Profile) -> float | None:
    """To what power of their number threads speed up computing, by what one of them took for a
    batch that was kept; None where that was not timed.
    """
    one, cores = profile.probes.get("one_thread"), profile.machine.cores
    threads = min(profile.seen.threads, cores)
    if one is None or threads < 2:
        return None
    # More threads than cores wait for one another: that much of what one gains is not its own.
    crowding = OVERSUBSCRIBED[0] * math.log(profile.seen.threads / threads)
    return (crowding - math.log(one)) / math.log(threads)


def _expectations(
    space: Space, profile: Profile
) -> Iterator[tuple[tuple[str, Value], Expectation]]:
    """What each value should do, relative to the program's own."""
    for name, values in space.choices.items():
        if name in STRUCTURE:
            continue
        knob = by_name(name)
        own = knob.expects(space.own[name], profile)
        for value in values:
            if value != space.own[name]:
                there = knob.expects(value, profile)
                change = there.log_mean - own.log_mean
                yield (name, value), Expectation(phase=there.phase, log_mean=change, sd=there.sd)
                if launching := there.launching - own.launching:
                    also = Expectation(phase="launch", log_mean=launching, sd=LAUNCHING_SD)
                    yield (name, value), also
