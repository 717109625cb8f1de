"""What must be known of a program, as it was observed and as it is written, beside its figures."""

from collections.abc import Mapping

from autotune.measurement.ablated import Ablation
from autotune.measurement.filling import doubts_of_cache
from autotune.measurement.first_epoch import doubts_of_memory
from autotune.measurement.readings.faults import doubts_of_faults
from autotune.measurement.readings.storage import doubts_of_storage
from autotune.profiling.course import (
    doubts_of_course,
    doubts_of_other_loops,
    doubts_of_processes,
    doubts_of_stopping,
    doubts_of_the_clock,
    doubts_of_threads,
    doubts_of_trackers,
    doubts_of_validation,
)
from autotune.profiling.later import doubts_of_last_batch, doubts_of_later_steps, doubts_of_updates
from autotune.profiling.profile import Doubt
from autotune.source.edits import Place
from autotune.source.loops.by_the_clock import by_the_clock
from autotune.source.loops.chances import moved_chance
from autotune.source.loops.evaluation import evaluated, gone_over
from autotune.source.loops.later import later_loader
from autotune.source.loops.other_training import not_reached
from autotune.source.loops.stages import later_stage
from autotune.source.loops.sweeps import swept_sizes
from autotune.source.loops.thaws import replaced_later, thawed_later
from autotune.source.options import without_left_out
from autotune.source.options.unbuilt import without_unbuilt
from autotune.source.program import Program, parsed
from autotune.source.refusals.dataset_changes import changed_in_training
from autotune.workload.program.imported import files_that_run
from autotune.workload.program.target import Target
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS


def doubts_of_program(target: Target, ablation: Ablation) -> tuple[Doubt, ...]:
    """What the figures of `target`, as it was observed, cannot be read without."""
    whole = what_runs(target, ablation.seen) if target.path else None
    return (
        *doubts_of_updates(ablation.seen),
        *doubts_of_course(ablation.seen, ended_early=ablation.ended),
        *(doubts_of_stopping(ablation.stopped) or _doubts_of_validation(whole, ablation)),
        *doubts_of_other_loops(_other_loops(target, ablation.seen)),
        *_doubts_of_loops(target, whole, ablation.seen),
        *doubts_of_last_batch(ablation.seen),
        *doubts_of_cache(ablation.filled, target.directory),
        *doubts_of_memory(ablation.first_epoch, ablation.kept),
        *doubts_of_threads(ablation.lines),
        *doubts_of_processes(ablation.seen),
        *doubts_of_faults(ablation.windows[AS_IS]),
        *doubts_of_trackers(ablation.seen),
        *doubts_of_storage(ablation.windows[AS_IS], warm=ablation.warm, seen=ablation.seen),
    )


def what_runs(target: Target, seen: Seen) -> Program:
    """All files that run, without what its options leave out of them, and classes of which no
    object is made.
    """
    texts = {str(file): text for file, text in files_that_run(target, seen.modules)}
    built = without_unbuilt(texts, _reached(seen))
    return parsed(_that_may_come(built, seen), seen.places, target.path)


def _that_may_come(texts: Mapping[str, str], seen: Seen) -> dict[str, str]:
    return without_left_out(texts, dict(seen.options), _reached(seen), seen.standing)


def _reached(seen: Seen) -> tuple[Place | None, ...]:
    """Where the run was seen to come to."""
    places = seen.places
    return (places.loader, places.optimizer, places.forward, places.step, *places.backwards)


def _other_loops(target: Target, seen: Seen) -> tuple[Place, ...]:
    """Training loops in the program's files that were not reached."""
    if seen.passed_loops or not target.path or not seen.places.backwards:
        return ()  # those that were passed are not told apart
    return not_reached(_texts(target, seen), seen.places.backwards, target.path)


def _doubts_of_loops(target: Target, whole: Program | None, seen: Seen) -> tuple[Doubt, ...]:
    """What the text of the training's loops says of its course."""
    if whole is None:
        return ()
    program = parsed(_texts(target, seen), seen.places, target.path)
    thaws = not seen.models or any(each.frozen_bytes for each in seen.models)
    return (
        *doubts_of_the_clock(by_the_clock(program)),
        *doubts_of_later_steps(
            thawed=thawed_later(program) if thaws else "",
            replaced=replaced_later(whole),
            stage=later_stage(whole),
            loader=later_loader(whole, seen.loaders_at),
            samples=changed_in_training(whole),
            chance=moved_chance(whole),
            sizes=swept_sizes(whole),
        ),
    )


def _doubts_of_validation(whole: Program | None, ablation: Ablation) -> tuple[Doubt, ...]:
    """What it does between its steps and did not come to."""
    timed = (*ablation.warm, *ablation.windows[AS_IS])
    place = evaluated(whole) if whole else ""
    if whole and ablation.seen.other_loaders:
        place = place or gone_over(whole)
    return doubts_of_validation(ablation.seen, timed, evaluated=place)


def _texts(target: Target, seen: Seen) -> dict[str, str]:
    """The program's files in which it was seen to train, without what its options leave out."""
    places = seen.places
    known = (places.loader, places.optimizer, places.forward, *places.backwards)
    return _that_may_come(target.texts(each.path for each in known if each), seen)
