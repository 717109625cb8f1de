"""Between space and trials: settings that promise the same training are held to it."""

import functools
import time
from collections.abc import Mapping

from autotune.flow.context import Context
from autotune.flow.sooner import EPOCHS, INTERVAL, STEPS_PER_EPOCH, batches_of, texts_sooner
from autotune.flow.trying import later_start_seconds
from autotune.flow.vetting_workers import (
    TOO_LATE,
    TRAIN_SECONDS,
    TRAIN_SHARE,
    VETTING_SECONDS,
    VETTING_SHARE,
    WORKERS_KNOBS,
    narrowed,
    vet_workers,
)
from autotune.knobs import by_name
from autotune.knobs.knob import Value
from autotune.measurement.untimed.divided import vet_micro_batches
from autotune.measurement.untimed.flushing import vet_flushing
from autotune.measurement.untimed.gradients import vet_freed_gradients
from autotune.measurement.untimed.rounding import vet_formats
from autotune.measurement.untimed.unwritten import vet_unwritten
from autotune.measurement.untimed.vetted import Start, Vetted
from autotune.outputs.patch import emit
from autotune.profiling.peaks import precision_of
from autotune.profiling.profile import Profile
from autotune.source.calls.unwritten import unwritten
from autotune.trials.space import Space
from autotune.workload.program.imported import whole_program
from autotune.workload.program.target import OBJECTS

# Looking for weights without a gradient, at the least.
LOOK_SHARE, LOOK_SECONDS = 0.005, (0.5, 2.0)
# After which it is looked once more at what a short format rounds, and again.
LATER_SHARE, LATER_SECONDS = 0.015, (0.7, 4.0)
# Whether memory is read that nothing was written to is looked at in so much of the time for trials.
UNWRITTEN_SHARE = 0.3

_NOT_WRITTEN = "the source does not show that parts of a batch would train the same"


def vet(context: Context, profiled: Profile, space: Space) -> Space:
    """`space` without what the profile found to be another training; and as far as there is time
    left to try any, without the workers that would deliver other data, without micro-batches that
    would not add up to the same step, without what the source forbids, without formats that round
    angles, predictions or whole numbers too far, without zeros for denormal numbers that matter,
    without freed gradients where zeros in their place move weights, and without memory that is kept
    where the program reads what it never wrote.
    """
    for name in tuple(space.choices):
        if name in space.choices:
            space = narrowed(space, name, _vet_profiled(profiled, space, name))
    if time.monotonic() > context.deadline:
        return space
    for name in tuple(space.choices) if context.target.kind != OBJECTS else ():
        if name in space.choices:
            space = _vetted_by_text(context, profiled, space, name)
    if WORKERS_KNOBS & space.choices.keys():
        with context.device.held():
            space = vet_workers(context, profiled, space)
    for name, look in _LOOKS.items():
        if name in space.choices:
            with context.device.held():
                space = narrowed(space, name, look(context, profiled, space))
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


def _vetted_by_text(context: Context, profiled: Profile, space: Space, name: str) -> Space:
    """`space` without the values of a knob that the source forbids."""
    values, found = list(space.choices[name]), dict[Value, str]()
    for value in (each for each in space.choices[name] if each != space.own[name]):
        refused = emit(context.target, {name: value}, profiled.seen).refused
        if reasons := [edit.reason for edit in refused if edit.forbidden]:
            values.remove(value)
            found[value] = reasons[0]
    return space.narrowed_by_text(name, values, _each(found))


def _each(found: Mapping[Value, str]) -> str:
    """The reason of these values, or each one's where they are several."""
    several = dict.fromkeys(found.values())
    if len(several) < 2:
        return next(iter(several), "")
    return "; ".join(f"{value}: {reason}" for value, reason in found.items())


def _vet_formats(context: Context, _: Profile, space: Space) -> Vetted:
    if context.target.kind == OBJECTS:
        return Vetted(values=space.choices["precision"])
    context.listener.stage("looking at what a shorter number format rounds")
    return vet_formats(
        context.bench.start,
        space.choices["precision"],
        context.seconds(LATER_SHARE, LATER_SECONDS),
        trials_deadline=context.trials_deadline,
    )


def _vet_flushing(context: Context, profiled: Profile, space: Space) -> Vetted:
    context.listener.stage("looking whether numbers that are denormal matter")
    return vet_flushing(
        context.bench.start,
        space.choices["flush_denormal"],
        sooner=_sooner(context, profiled, every=True),
        seconds=context.seconds(VETTING_SHARE, VETTING_SECONDS),
    )


def _vet_gradients(context: Context, profiled: Profile, space: Space) -> Vetted:
    context.listener.stage("looking for weights that have no gradient in some steps")
    return vet_freed_gradients(
        context.bench.start,
        space.choices["set_to_none"],
        space.own["set_to_none"],
        step_seconds=profiled.step_seconds,
        seconds=context.seconds(LOOK_SHARE, LOOK_SECONDS),
        most_seconds=context.seconds(VETTING_SHARE, VETTING_SECONDS),
        sooner=_sooner(context, profiled, every=False),
    )


def _vet_unwritten(context: Context, profiled: Profile, space: Space) -> Vetted:
    objects = context.target.kind == OBJECTS
    place = "" if objects else unwritten(whole_program(context.target, profiled.seen))
    if not place:
        return Vetted(values=space.choices["keep_freed_memory"])
    seconds = context.seconds(TRAIN_SHARE, TRAIN_SECONDS)
    needed = 2 * (later_start_seconds(profiled) + seconds)
    if needed > UNWRITTEN_SHARE * (context.trials_deadline - time.monotonic()):
        reason = f"whether the program reads memory that it never wrote {TOO_LATE}"
        return Vetted(values=(space.own["keep_freed_memory"],), reason=reason)
    context.listener.stage("looking whether the program reads memory that it never wrote")
    return vet_unwritten(
        context.bench.start,
        space.choices["keep_freed_memory"],
        place=place,
        seconds=seconds,
        sooner=_sooner(context, profiled, every=True),
    )


def _sooner(context: Context, profiled: Profile, *, every: bool) -> Start:
    """What starts the program so that what it does late comes soon, and its epochs end soon; what
    comes `every` so many steps as well.
    """
    seen, batches = profiled.seen, batches_of(STEPS_PER_EPOCH, profiled.seen)
    texts = texts_sooner(
        context.target, seen, steps=INTERVAL, batches=batches, epochs=EPOCHS, every=every
    )
    return functools.partial(context.bench.start, sources=texts, epoch_batches=batches)


# In turn, what is looked at by runs that are not timed.
_LOOKS = {
    "micro_batches": _vet_micro_batches,
    "precision": _vet_formats,
    "flush_denormal": _vet_flushing,
    "set_to_none": _vet_gradients,
    "keep_freed_memory": _vet_unwritten,
}
