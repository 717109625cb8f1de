"""What to try next, from what the profile knows and what the trials said: few trials, the likeliest
first.
"""

import math
from collections.abc import Iterator, Sequence

from autotune.knobs import KNOBS
from autotune.knobs.knob import Config, Value
from autotune.measurement.measurement import Measurement
from autotune.profiling.profile import Profile
from autotune.trials.space import Space
from autotune.trials.trial import Trial

# Values that seldom lose where their knob is offered at all; tried together first, one by one
# afterwards.
_LIKELY: dict[str, tuple[Value, ...]] = {
    "persistent_workers": (True,),
    "pin_memory": (True,),
    "non_blocking": (True,),
    "precision": ("bf16", "tf32"),
    "channels_last": (True,),
    "cudnn_benchmark": (True,),
    "optimizer": ("fused", "foreach"),
    "set_to_none": (True,),
}
# A loader that keeps a core this busy decodes; below it, it waits, and more workers than cores pay.
DECODING_SHARE = 0.6


def propose(trials: Sequence[Trial], space: Space, profile: Profile) -> dict[str, Value] | None:
    """The next Config worth a trial, None when what the profile suggests has all been tried.

    First whole configurations that the profile suggests (knobs that interact are moved together),
    then every single change of the best one so far, the knobs of the largest ceiling first.
    """
    tried = [dict(trial.config) for trial in trials]
    for suggestion in (*_starts(space, profile), *_neighbours(_best(trials), space, profile)):
        config = space.difference(suggestion)
        if config and config not in tried:
            return config
    return None


def _best(trials: Sequence[Trial]) -> Config:
    measured = [trial for trial in trials if isinstance(trial.outcome, Measurement)]
    best = max(measured, key=lambda trial: trial.outcome.samples_per_second, default=None)  # type: ignore[union-attr]
    return best.config if best else {}


def _starts(space: Space, profile: Profile) -> Iterator[dict[str, Value]]:
    """Whole configurations: a fed loader, a faster computation, both; and where decoding competes,
    fewer threads.
    """
    likely = _likely(space)
    workers = _workers_needed(space, profile)
    fed: dict[str, Value] = {"num_workers": workers} if workers else {}
    fed |= {name: value for name, value in likely.items() if fed and name == "persistent_workers"}
    yield fed | likely
    yield fed
    if fed and (profile.data_processor_share or 0.0) > DECODING_SHARE:
        for threads in sorted(
            value for value in space.choices.get("threads", ()) if isinstance(value, int)
        ):
            for count in sorted(
                value for value in space.choices["num_workers"] if isinstance(value, int) and value
            ):
                if threads + count <= profile.machine.cores + 1:
                    yield fed | likely | {"num_workers": count, "threads": threads}


def _likely(space: Space) -> dict[str, Value]:
    return {
        name: next(value for value in values if value in space.choices[name])
        for name, values in _LIKELY.items()
        if any(value in space.choices.get(name, ()) for value in values)
    }


def _workers_needed(space: Space, profile: Profile) -> int:
    """The workers that keep the computation fed: its ceiling over what one worker draws."""
    counts = sorted(
        value for value in space.choices.get("num_workers", ()) if isinstance(value, int) and value
    )
    compute, data = profile.ceiling("compute"), profile.ceiling("data")
    if not counts:
        return 0
    if not (compute and data and compute.samples_per_second and data.samples_per_second):
        return counts[0]
    own = profile.seen.loader.num_workers if profile.seen.loader else 0
    needed = math.ceil(compute.samples_per_second / data.samples_per_second * max(own, 1))
    if (profile.data_processor_share or 0.0) > DECODING_SHARE:
        needed = min(needed, profile.machine.cores)
    return next((count for count in counts if count >= needed), counts[-1])


def _neighbours(best: Config, space: Space, profile: Profile) -> Iterator[dict[str, Value]]:
    """Every change of one knob of `best`, by the knob's ceiling; numbers move to the values beside
    theirs first.
    """
    for knob in sorted(KNOBS, key=lambda knob: -_promise(knob.relieves, profile)):
        values = space.choices.get(knob.name, ())
        current = best.get(knob.name, space.own.get(knob.name))
        for value in sorted(values, key=lambda value: _distance(values, current, value)):
            if value != current:
                yield {**best, knob.name: value}


def _promise(relieves: frozenset[str], profile: Profile) -> float:
    """The share of the step that a knob could take away at most."""
    shares = {
        "data": profile.phases.get("data", 0.0),
        "copy": profile.phases.get("copy", 0.0),
        "optimizer": profile.phases.get("optimizer", 0.0),
        "compute": profile.phases.get("forward", 0.0) + profile.phases.get("backward", 0.0),
    }
    shares["overhead"] = shares["compute"] + shares["optimizer"]
    return max((shares.get(name, 0.0) for name in relieves), default=0.0)


def _distance(values: Sequence[Value], current: Value | None, value: Value) -> int:
    return abs(values.index(value) - values.index(current)) if current in values else 0
