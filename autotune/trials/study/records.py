"""A trial as Optuna keeps it, and back: what a later search, another machine or a dashboard can
read of it.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from autotune.knobs import KNOBS
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure, Measurement
from autotune.profiling.profile import PROCESSORS_TAKEN, Doubt
from autotune.trials.space import Space
from autotune.trials.trial import PASSING, Trial
from autotune.workload.seen import Seen

# What a trial says of itself beside its parameters and its value. `CONFIG` is there as soon as it
# is decided what is tried; `REPEATS` says why it was not tried, mostly the trial that was the same;
# `INTERRUPTED` is a trial that its own search gave up. `PROCESS` has its number and who makes it,
# `CLOSED` the knobs whose values its search had by the user's word, or had left.
CONFIG, REPEATS, INTERRUPTED = "config", "repeats", "interrupted"
PROCESS, CLOSED = "process", "closed"
# A configuration whose search has died in it so many times is not tried again; the program as it is
# was measured before, and can be nobody's death.
_MOST_DEATHS = 2
_OUTCOME = ("samples_per_second", "failure")


def first_facts(config: Config, space: Space) -> dict[str, Any]:
    """What is known of a trial as it begins; with the last of it, others know what it tries."""
    closed = [name for name in space.closed if name in space.choices]
    return {CLOSED: closed, CONFIG: as_text(config)}


def facts_of(trial: Trial, constraints: Mapping[str, float]) -> dict[str, Any]:
    """What is kept of `trial` as the user attributes of Optuna's, its `constraints` too, since not
    every tool shows those themselves.
    """
    outcome = trial.outcome
    facts: dict[str, Any] = {CONFIG: as_text(trial.config), "seconds": trial.seconds}
    facts |= {f"constraint {name}": amount for name, amount in constraints.items()}
    if isinstance(outcome, Failure):
        return facts | {"failure": outcome.kind, "reason": outcome.reason}
    return facts | {
        "interval": list(outcome.interval),
        "samples_per_second": outcome.samples_per_second,
        "startup_seconds": outcome.startup_seconds,
        "peak_bytes": outcome.peak_bytes,
        "joules_per_sample": outcome.joules_per_sample,
        "doubts": [[doubt.name, doubt.evidence, doubt.advice] for doubt in outcome.doubts],
    }


def constraints_of(trial: Trial, memory_limit_bytes: int | None) -> Iterator[tuple[str, float]]:
    """Constraints of Optuna's, by name: met where they are not above 0."""
    if isinstance(trial.outcome, Failure):
        if trial.outcome.kind == "out_of_memory":
            yield "out_of_memory", 1.0
    elif memory_limit_bytes is not None and trial.outcome.peak_bytes is not None:
        yield "memory_limit", float(trial.outcome.peak_bytes - memory_limit_bytes)
    elif memory_limit_bytes is not None and trial.config:
        yield "memory_unknown", 1.0


def known_trials(
    found: Sequence[FrozenTrial], space: Space, seen: Seen, *, of_optunas_loop: bool = False
) -> list[Trial]:
    """What the trials of a study say, those of other searches and of other tools too.

    In a study that Optuna's own loop runs, a trial that failed without a word has failed for good.
    """
    deaths = Counter(
        each.user_attrs[CONFIG]
        for each in found
        if each.state == TrialState.FAIL and CONFIG in each.user_attrs and not _has_end(each)
    )
    dead = {config for config, times in deaths.items() if times >= _MOST_DEATHS} - {as_text({})}
    dead |= {""} if of_optunas_loop else set()
    return [trial for each in found if (trial := _known(each, space, seen, dead)) is not None]


def _known(found: FrozenTrial, space: Space, seen: Seen, dead: Collection[str]) -> Trial | None:
    facts = found.user_attrs
    if REPEATS in facts or INTERRUPTED in facts or facts.get("failure") in PASSING:
        return None
    doubts = {name for name, *_ in facts.get("doubts", ())}
    if PROCESSORS_TAKEN in doubts and facts.get(CONFIG) != as_text({}):
        return None  # beside a program as it is of a quieter hour, it would look slow
    outcome: Measurement | Failure
    if "failure" in facts:
        outcome = Failure(kind=facts["failure"], reason=facts["reason"])
    elif found.state == TrialState.COMPLETE and found.value is not None:
        outcome = _measured(found.value, facts, seen)
    elif found.state == TrialState.FAIL and facts.get(CONFIG, "") in dead:
        outcome = Failure(kind="killed", reason="whoever tried it died or failed in it")
    else:
        return None
    config = from_text(facts[CONFIG]) if CONFIG in facts else space.difference(found.params)
    seconds = facts.get("seconds", 0.0)
    return Trial(number=found.number, config=config, outcome=outcome, seconds=seconds)


def _measured(value: float, facts: dict[str, Any], seen: Seen) -> Measurement:
    """What was measured; its raw windows stayed with the result of the search that did it."""
    return Measurement(
        samples_per_second=value,
        interval=tuple(facts.get("interval", (value, value))),
        windows=(),
        seen=seen,
        startup_seconds=facts.get("startup_seconds", 0.0),
        peak_bytes=facts.get("peak_bytes"),
        losses=(),
        doubts=tuple(
            Doubt(name=name, evidence=evidence, advice=advice)
            for name, evidence, advice in facts.get("doubts", ())
        ),
        joules_per_sample=facts.get("joules_per_sample"),
    )


def begun(found: Sequence[FrozenTrial]) -> list[tuple[int, Config]]:
    """What is being tried now, by the trial's number."""
    return [
        (each.number, from_text(each.user_attrs[CONFIG]))
        for each in found
        if each.state == TrialState.RUNNING and CONFIG in each.user_attrs
    ]


def open_configs(found: Sequence[FrozenTrial], trials: Sequence[Trial]) -> Iterator[Config]:
    """What was measured, but for settings that a search of its own had by the user's word."""
    closed = {each.number: each.user_attrs.get(CLOSED, ()) for each in found}
    for trial in trials:
        if isinstance(trial.outcome, Measurement):
            own = closed.get(trial.number, ())
            yield {name: value for name, value in trial.config.items() if name not in own}


def as_text(config: Config) -> str:
    """`config` as one line that is the same for the same settings."""
    return json.dumps(dict(config), sort_keys=True)


def from_text(text: str) -> dict[str, Any]:
    """The config that `as_text` gave, in the order of the knobs."""
    config = json.loads(text)
    return {name: config[name] for name in sorted(config, key=_place)}


def _place(name: str) -> int:
    return next((place for place, knob in enumerate(KNOBS) if knob.name == name), len(KNOBS))


def _has_end(found: FrozenTrial) -> bool:
    facts = found.user_attrs
    return any(name in facts for name in (*_OUTCOME, REPEATS, INTERRUPTED))
