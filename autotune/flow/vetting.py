"""Between space and trials: settings that promise the same training are held to it."""

import functools
import re
import time
from collections.abc import Sequence

from autotune.flow.context import Context
from autotune.flow.trying import later_start_seconds
from autotune.knobs import by_name
from autotune.measurement.untimed.divided import vet_micro_batches
from autotune.measurement.untimed.gradients import vet_freed_gradients
from autotune.measurement.untimed.rounding import vet_formats
from autotune.measurement.untimed.trained import why_not_living_on, why_not_trained
from autotune.measurement.untimed.vetting import WORKERS, Vetted, vet_workers
from autotune.outputs.patch import emit
from autotune.outputs.wording import counted
from autotune.profiling.peaks import precision_of
from autotune.profiling.profile import Profile
from autotune.source.refusals.dataset_changes import set_later, set_meanwhile
from autotune.trials.space import Space
from autotune.workload.program.imported import files_that_run, whole_program
from autotune.workload.program.target import OBJECTS
from autotune.workload.samples.delivery import Setting
from autotune.workload.seen import Seen, SeenLoader

# Drawing batches to compare them, as a share of the budget and within limits, in seconds; it is
# done four times.
DRAW_SHARE, DRAW_SECONDS = 0.01, (0.5, 3.0)
# What comparing may take in all: workers that are spawned import the program anew, for seconds.
VETTING_SHARE, VETTING_SECONDS = 0.25, (15.0, 120.0)
# How long the training itself is compared with workers, in each of so many runs; what is found to
# differ takes one more each, to see whether the program comes again.
TRAIN_SHARE, TRAIN_SECONDS, TRAINED_RUNS = 0.02, (1.0, 8.0), 4
# Looking for weights without a gradient, at the least.
LOOK_SHARE, LOOK_SECONDS = 0.005, (0.5, 2.0)

# What the source may forbid to a run as well.
_MAY_BE_FORBIDDEN = (
    "threads",
    "num_workers",
    "persistent_workers",
    "prefetch_to_device",
    "precision",
    "channels_last",
    "compile",
)
# Sines, losses of regressions, and what makes whole numbers.
_MAY_BE_ROUNDED = re.compile(
    r"\b(sin|cos)_?\s*\(|mse|l1_?loss|huber|\*\*\s*2|\b(pow|square|abs)\b"
    r"|\.(long|int)\(\)|\btorch\.(long|int|int32|int64)\b",
    re.IGNORECASE,
)
_WORKERS = frozenset(("num_workers", "persistent_workers"))
_NOT_WRITTEN = "the source does not show that parts of a batch would train the same"


def vet(context: Context, profiled: Profile, space: Space) -> Space:
    """`space` without what the profile found to be another training; and as far as there is time
    left to try any, without the workers that would deliver other data, without micro-batches that
    would not add up to the same step, without what the source forbids, without formats that round
    angles, predictions or whole numbers too far, and without freed gradients where zeros in their
    place move weights.
    """
    for name in tuple(space.choices):
        if name in space.choices:
            space = _narrowed(space, name, _vet_profiled(profiled, space, name))
    if time.monotonic() > context.deadline:
        return space
    for name in _MAY_BE_FORBIDDEN:
        if name in space.choices and context.target.kind != OBJECTS:
            space = _narrowed(space, name, _vet_source(context, profiled, space, name))
    loader = profiled.seen.loader
    if loader is not None and _WORKERS & space.choices.keys():
        with context.device.held():
            vetted = _vet_workers(context, loader, space)
            space = _without_others(space, vetted)
            space = _without_late(context, profiled, space, vetted.settings)
            space = _trained_alike(context, profiled, space, steady=vetted.steady)
    if "micro_batches" in space.choices:
        with context.device.held():
            space = _narrowed(space, "micro_batches", _vet_micro_batches(context, profiled, space))
    if "precision" in space.choices and _may_be_rounded(context, profiled.seen):
        with context.device.held():
            space = _narrowed(space, "precision", _vet_formats(context, space))
    if "set_to_none" in space.choices:
        with context.device.held():
            space = _narrowed(space, "set_to_none", _vet_gradients(context, profiled, space))
    return space


def _vet_workers(context: Context, loader: SeenLoader, space: Space) -> Vetted:
    context.listener.stage("comparing what workers deliver with what the program is given")
    return vet_workers(
        context.bench.start,
        context.target,
        loader,
        space.choices.get("num_workers", (loader.num_workers,)),
        seconds=context.seconds(DRAW_SHARE, DRAW_SECONDS),
        deadline=time.monotonic() + context.seconds(VETTING_SHARE, VETTING_SECONDS),
    )


def _without_others(space: Space, vetted: Vetted) -> Space:
    """`space` without the workers that would deliver other data."""
    if vetted.counted and "persistent_workers" in space.choices:
        live_on = Vetted(
            values=(False,),
            reason=f"reading counts `{vetted.counted}`, and what is read depends on it: workers "
            "that live on would count on from epoch to epoch",
        )
        space = _narrowed(space, "persistent_workers", live_on)
    return _narrowed(space, "num_workers", vetted) if "num_workers" in space.choices else space


def _without_late(
    context: Context, profiled: Profile, space: Space, settings: Sequence[Setting]
) -> Space:
    """`space` without the workers that would not come to see, or too late, what the training sets
    of that by which samples are made, however seldom.
    """
    target, seen = context.target, profiled.seen
    if target.kind == OBJECTS or not settings:
        return space
    program = whole_program(target, seen)
    had_workers = seen.loader is not None and seen.loader.num_workers > 0
    for at in settings:
        meanwhile = set_meanwhile(program, at.name, at.kinds)
        place = meanwhile or set_later(program, at.name, at.kinds)
        why = f"the training sets `{at.path}` ({place}), by which samples are made: workers"
        if meanwhile and not had_workers and "num_workers" in space.choices:
            copies = Vetted(values=(0,), reason=f"{why} read from copies of it")
            space = _narrowed(space, "num_workers", copies)
        if place and "persistent_workers" in space.choices:
            ended = Vetted(values=(False,), reason=f"{why} that live on never see it")
            space = _narrowed(space, "persistent_workers", ended)
    return space


def _trained_alike(context: Context, profiled: Profile, space: Space, *, steady: bool) -> Space:
    """`space` without the workers with which the training itself would be another, and without
    those that live on; as it is where there is no time to see.
    """
    loader, seconds = profiled.seen.loader, context.seconds(TRAIN_SHARE, TRAIN_SECONDS)
    needed = TRAINED_RUNS * (later_start_seconds(profiled) + seconds)
    in_time = needed < context.seconds(VETTING_SHARE, VETTING_SECONDS)
    asked = _WORKERS & space.choices.keys() and context.target.kind != OBJECTS
    if loader is None or loader.iterable or not (asked and in_time):
        return space
    start = functools.partial(context.bench.start, alike=True)
    own, values = loader.num_workers, space.choices.get("num_workers", (loader.num_workers,))
    context.listener.stage("training a few steps with workers and without, on the same batches")
    if others := [int(value) for value in values if value not in (0, own)]:
        workers = min(max(others), WORKERS)
        reason = why_not_trained(start, workers, steady=steady, seconds=seconds)
        if reason:
            alone = Vetted(values=(own,), reason=f"with {counted(workers, 'worker')}, {reason}")
            space, values = _narrowed(space, "num_workers", alone), (own,)
    workers = min(max(map(int, values)), WORKERS)
    anew = steady and not loader.persistent_workers
    if workers and anew and "persistent_workers" in space.choices:
        reason = why_not_living_on(start, workers, seconds=seconds)
        if reason:
            ended = Vetted(values=(False,), reason=reason)
            space = _narrowed(space, "persistent_workers", ended)
    return space


def _vet_micro_batches(context: Context, profiled: Profile, space: Space) -> Vetted:
    """As `measurement.divided` does, and none where the source forbids it to the patch too: a loop
    that counts its batches, or may be left early, would end before the data do, and a collate
    function may make something else of a smaller batch.
    """
    context.listener.stage("comparing the step of a divided batch with the whole batch's")
    parts = space.choices["micro_batches"]
    if context.target.kind != OBJECTS:
        written = emit(context.target, {"micro_batches": parts[-1]}, profiled.seen)
        if written.refused:
            return Vetted(values=(1,), reason=f"{_NOT_WRITTEN}: {written.refused[0].reason}")
    start = functools.partial(context.bench.start, injected=True)
    precision = precision_of(profiled.seen, profiled.machine)
    return vet_micro_batches(start, precision, parts)


def _vet_profiled(profiled: Profile, space: Space, name: str) -> Vetted:
    """Without the values that the profile has tried, and found to be another training."""
    knob, own = by_name(name), space.own[name]
    found = {
        value: "" if value == own else knob.contradicted(value, profiled)
        for value in space.choices[name]
    }
    values = tuple(value for value, reason in found.items() if not reason)
    return Vetted(values=values, reason=next(filter(None, found.values()), ""))


def _vet_source(context: Context, profiled: Profile, space: Space, name: str) -> Vetted:
    """Without the values that the source forbids."""
    values, found = list(space.choices[name]), list[str]()
    for value in (each for each in space.choices[name] if each != space.own[name]):
        refused = emit(context.target, {name: value}, profiled.seen).refused
        if reasons := [edit.reason for edit in refused if edit.forbidden]:
            values.remove(value)
            found += reasons
    return Vetted(values=tuple(values), reason=next(iter(found), ""))


def _may_be_rounded(context: Context, seen: Seen) -> bool:
    """Whether the program's own text has what a short format may round too far; libraries look
    after theirs.
    """
    if context.target.kind == OBJECTS:
        return False
    texts = (text for _, text in files_that_run(context.target, seen.modules))
    return any(map(_MAY_BE_ROUNDED.search, texts))


def _vet_formats(context: Context, space: Space) -> Vetted:
    context.listener.stage("looking at what a shorter number format rounds")
    return vet_formats(context.bench.start, space.choices["precision"])


def _vet_gradients(context: Context, profiled: Profile, space: Space) -> Vetted:
    context.listener.stage("looking for weights that have no gradient in some steps")
    return vet_freed_gradients(
        context.bench.start,
        space.choices["set_to_none"],
        space.own["set_to_none"],
        step_seconds=profiled.step_seconds,
        seconds=context.seconds(LOOK_SHARE, LOOK_SECONDS),
        most_seconds=context.seconds(VETTING_SHARE, VETTING_SECONDS),
    )


def _narrowed(space: Space, name: str, vetted: Vetted) -> Space:
    return space.narrowed(name, vetted.values, vetted.reason, vetted.doubt)
