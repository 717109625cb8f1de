"""Loader workers held to their promise: the data that they deliver, what the training sets of that
by which samples are made, and the training itself.
"""

import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from autotune.flow.context import Context
from autotune.flow.doubts import what_runs
from autotune.flow.sooner import INTERVAL, batches_of, texts_sooner
from autotune.flow.trying import later_start_seconds
from autotune.flow.workers_by_text import without_others_by_text, without_several
from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.untimed import vetting
from autotune.measurement.untimed.trained import Start, why_not_living_on, why_not_trained
from autotune.measurement.untimed.vetted import TOO_LITTLE_TIME, Vetted
from autotune.measurement.untimed.vetting import WORKERS
from autotune.outputs.wording import counted
from autotune.profiling.profile import Doubt, Profile
from autotune.source.loops.beginnings import ends_by_count
from autotune.source.refusals.seeded_anew import LOADER, seeded_anew
from autotune.source.refusals.settings import Setting, Training
from autotune.trials.space import Space
from autotune.workload.program.imported import whole_program
from autotune.workload.program.target import OBJECTS
from autotune.workload.samples.delivery import GIVEN_OUT, SAMPLER

WORKERS_KNOBS = frozenset(("num_workers", "persistent_workers"))
# Drawing batches to compare them, as a share of the budget and within limits, in seconds; it is
# done four times.
DRAW_SHARE, DRAW_SECONDS = 0.01, (0.5, 3.0)
# What comparing may take in all: workers that are spawned import the program anew, for seconds.
VETTING_SHARE, VETTING_SECONDS = 0.25, (15.0, 120.0)
# How long the training itself is compared with workers, in each of the runs; one comparison takes
# two, and what is found to differ one more, to see whether the program comes again.
TRAIN_SHARE, TRAIN_SECONDS = 0.02, (1.0, 8.0)
# Of how many steps an epoch then is, to see whether workers may live on: many must begin.
STEPS_PER_EPOCH = 2
# An epoch is this share of the steps that are compared, otherwise, and so many at the most.
EPOCH_SHARE, EPOCH_STEPS = 1 / 3, 16
TOO_LATE = f"could not be compared {TOO_LITTLE_TIME}"


def vet_workers(context: Context, profiled: Profile, space: Space) -> Space:
    """`space` without the workers that would deliver other data, those that would not see, or too
    late, what the training sets, and those with which the training itself would be another.
    """
    loader = profiled.seen.loader
    if loader is None:
        return space
    space = without_others_by_text(context, profiled, space)
    if not WORKERS_KNOBS & space.choices.keys():
        return space
    deadline = time.monotonic() + context.seconds(VETTING_SHARE, VETTING_SECONDS)
    context.listener.stage("comparing what workers deliver with what the program is given")
    vetted = vetting.vet_workers(
        context.bench.start,
        context.target,
        loader,
        space.choices.get("num_workers", (loader.num_workers,)),
        seconds=context.seconds(DRAW_SHARE, DRAW_SECONDS),
        deadline=deadline,
        counts_steps=loader.iterable
        and context.target.kind != OBJECTS
        and ends_by_count(whole_program(context.target, profiled.seen)),
    )
    space = _without_others(space, vetted)
    space = _without_late(context, profiled, space, vetted)
    if loader.iterable or context.target.kind == OBJECTS:
        return space
    return _trained_alike(context, profiled, space, vetted, deadline)


def narrowed(space: Space, name: str, vetted: Vetted) -> Space:
    """`space` with the values of a knob that keep its promise."""
    return space.narrowed(name, vetted.values, vetted.reason, vetted.doubt)


def _without_others(space: Space, vetted: Vetted) -> Space:
    """`space` without the workers that would deliver other data."""
    if vetted.depends and "persistent_workers" in space.choices:
        reason = f"{vetted.depends}: workers that live on would go on from epoch to epoch"
        live_on = Vetted(values=(False,), reason=reason)
        space = narrowed(space, "persistent_workers", live_on)
    return narrowed(space, "num_workers", vetted) if "num_workers" in space.choices else space


def _without_late(context: Context, profiled: Profile, space: Space, vetted: Vetted) -> Space:
    """`space` without the workers that would not come to see, or too late, what the training sets
    of that by which samples are made, however seldom.
    """
    target, seen = context.target, profiled.seen
    if target.kind == OBJECTS:
        return space
    program = whole_program(target, seen)
    had_workers = seen.loader is not None and seen.loader.num_workers > 0
    space = _without_other_numbers(
        space, vetted.streams, seeded_anew(what_runs(target, seen)), had_workers
    )
    if seen.loader is not None:
        space = without_several(space, program, seen.loader)
    if not vetted.settings:
        return space
    training = Training(program, vetted.running)
    for at in _distinct(vetted.settings):
        meanwhile = training.sets_meanwhile(at)
        if meanwhile and not had_workers and "num_workers" in space.choices:
            reason = _seen_otherwise(at, meanwhile)
            space = space.narrowed_by_text("num_workers", (0,), reason)
        if at.path.startswith((SAMPLER, GIVEN_OUT)) or "persistent_workers" not in space.choices:
            continue  # the first stays where the training is
        if place := meanwhile or training.sets_later(at):
            why = f"the training may set `{at.path}` ({place}), by which samples are made: workers "
            reason = f"{why}that live on would go on with the copies that they have"
            space = space.narrowed_by_text("persistent_workers", (False,), reason)
    return space


def _seen_otherwise(at: Setting, place: str) -> str:
    """Why workers would not do with what the training sets at this `place`."""
    if at.path.startswith(GIVEN_OUT):
        what = at.path.removeprefix(f"{GIVEN_OUT}.")
        return (
            f"batches hold what the dataset keeps, and the training may set `{what}` of it "
            f"({place}): workers send copies"
        )
    sets = f"the training may set `{at.path}` ({place}), by which samples are"
    if at.path.startswith(SAMPLER):
        return f"{sets} chosen: workers read ahead of it"
    return f"{sets} made: workers read from copies of it"


def _without_other_numbers(
    space: Space, streams: Sequence[str], anew: Mapping[str, str], had_workers: bool
) -> Space:
    """`space` without the workers that would draw other random numbers where each epoch begins
    `anew` with the same: theirs go, as an epoch begins, by the loader's generator, torch's mostly.
    """
    if not had_workers and "num_workers" in space.choices:
        for reason in _other_numbers(streams, anew):
            space = space.narrowed_by_text("num_workers", (0,), reason)
    if anew and "persistent_workers" in space.choices:
        (place, *_) = anew.values()
        reason = f"random numbers may begin anew with the same seed in each epoch ({place}): "
        reason += "workers that live on would go on with theirs"
        space = space.narrowed_by_text("persistent_workers", (False,), reason)
    return space


def _other_numbers(streams: Sequence[str], anew: Mapping[str, str]) -> Iterator[str]:
    """Why workers would draw other random numbers than the program does as it is."""
    seeds = anew.get(LOADER) or anew.get("torch")
    whose = "of the loader's generator" if LOADER in anew else "of torch's"
    moves_on = [each for each in streams if each not in anew]
    if LOADER in anew or (seeds and moves_on):
        yield (
            f"random numbers {whose} may begin anew with the same seed in each epoch ({seeds}), "
            "and those of workers go by them: what these draw for their samples may be the same "
            "in every epoch"
        )
    for place in (anew[each] for each in streams if each in anew and not seeds):
        yield (
            f"random numbers by which samples are made may begin anew with the same seed in each "
            f"epoch ({place}): workers would have others"
        )


def _distinct(settings: Sequence[Setting]) -> Iterable[Setting]:
    """One of those that the source knows by the same names: a table of dicts has one for each item
    of each row.
    """
    found = dict[tuple[Setting, bool], Setting]()
    for at in settings:
        found.setdefault((replace(at, path=""), at.path.startswith(SAMPLER)), at)
    return found.values()


def _trained_alike(
    context: Context, profiled: Profile, space: Space, vetted: Vetted, deadline: float
) -> Space:
    """`space` without the numbers of workers with which the training itself would be another, and
    without workers that live on. Where there is no time to see, it has a doubt; what there is none
    left for once the first was compared, is left out.
    """
    loader = profiled.seen.loader
    assert loader is not None
    own, numbers = loader.num_workers, set(map(int, space.choices.get("num_workers", ())))
    more = numbers - {0, own}
    others = [min(max(more), WORKERS)] if more else []
    others += [0] if own and 0 in numbers else []
    steady = vetted.steady
    lives_on = not loader.persistent_workers and "persistent_workers" in space.choices
    if not (others or lives_on):
        return space
    seconds = context.seconds(TRAIN_SHARE, TRAIN_SECONDS)
    needed = 2 * (later_start_seconds(profiled) + seconds)
    late = context.seconds(VETTING_SHARE, VETTING_SECONDS) / 2
    if time.monotonic() + needed > deadline + late:
        return _not_trained(space, needed)
    context.listener.stage("training a few steps with workers and without, on the same batches")
    start = functools.partial(context.bench.start, alike=True)
    # Some epochs of each: workers copy the dataset anew as one begins, what has none keeps its own.
    hurried = _sooner(context, profiled, vetted, start, _soon(profiled, seconds))
    for at, workers in enumerate(others):
        if at and time.monotonic() + needed > deadline:
            why = f"the training with {_workers(workers)} {TOO_LATE}"
        elif why := why_not_trained(start, workers, steady=steady, seconds=seconds, sooner=hurried):
            why = f"with {_workers(workers)}, {why}"
        values = space.choices["num_workers"]
        kept = tuple(each for each in values if each == own or (each == 0) != (workers == 0))
        space = narrowed(space, "num_workers", Vetted(values=kept, reason=why))
    workers = min(max(map(int, space.choices.get("num_workers", (own,)))), WORKERS)
    if not (workers and lives_on and "persistent_workers" in space.choices):
        return space
    why = f"the training with workers that live on {TOO_LATE}"
    if not others or time.monotonic() + needed < deadline:
        hurried = _sooner(context, profiled, vetted, start, STEPS_PER_EPOCH)
        begun_often = functools.partial(start, epoch_batches=hurried.keywords["epoch_batches"])
        why = why_not_living_on(begun_often, workers, seconds=seconds, sooner=hurried)
    return narrowed(space, "persistent_workers", Vetted(values=(False,), reason=why))


def _soon(profiled: Profile, seconds: float) -> int:
    """Of how many steps an epoch is, so that there is time for some."""
    steps = int(EPOCH_SHARE * seconds / profiled.step_seconds)
    return min(max(steps, STEPS_PER_EPOCH), EPOCH_STEPS)


def _sooner(
    context: Context, profiled: Profile, vetted: Vetted, start: Start, steps: int
) -> functools.partial[ProcessRun]:
    """What starts the program so that its epochs are of so many steps, and what it does late, by
    its text, comes after two of them, or two steps.
    """
    running = vetted.running
    batches = batches_of(steps, profiled.seen)
    texts = texts_sooner(
        context.target, profiled.seen, steps=INTERVAL, running=running, early=batches
    )
    return functools.partial(start, sources=texts, epoch_batches=batches)


def _workers(number: int) -> str:
    return counted(number, "worker") if number else "no worker"


def _not_trained(space: Space, needed_seconds: float) -> Space:
    """`space` with a doubt about its workers, where it has none yet."""
    name = next(name for name in ("num_workers", "persistent_workers") if name in space.choices)
    doubt = Doubt(
        name="training not compared",
        evidence="The first steps of the training were not compared with workers and without: that "
        f"takes {needed_seconds:.0f} s, for which the budget is too short.",
        advice="Search with a larger budget, or compare the loss curves of a longer run.",
    )
    return space if name in space.doubts else space.narrowed(name, space.choices[name], doubt=doubt)
