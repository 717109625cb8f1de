"""Loader workers that the source rules out: what no batch that is drawn shows."""

from autotune.flow.context import Context
from autotune.profiling.profile import Profile
from autotune.source.program import Program
from autotune.source.refusals.caught import caught_of_samples
from autotune.source.refusals.kept_batches import kept_for_good
from autotune.source.refusals.rewritten_files import rewritten, written_by_samples
from autotune.trials.space import Space
from autotune.workload.program.imported import whole_program
from autotune.workload.program.target import OBJECTS
from autotune.workload.seen import SeenLoader


def without_others_by_text(context: Context, profiled: Profile, space: Space) -> Space:
    """`space` without workers where the text shows what they would do otherwise."""
    loader = profiled.seen.loader
    if context.target.kind == OBJECTS or loader is None:
        return space
    program = whole_program(context.target, profiled.seen)
    has_none = "num_workers" in space.choices and not loader.num_workers
    if has_none and (reason := _why_none(program)):
        return space.narrowed_by_text("num_workers", (0,), reason)
    return _without_older_files(program, space, loader)


def _why_none(program: Program) -> str:
    """Why there may be none where there is none so far."""
    if place := caught_of_samples(program):
        return (
            "code around the drawing of batches catches exceptions and may go by their kind or "
            f"text (caught at {place}): out of a worker one comes with a traceback as its text, or "
            "as another kind"
        )
    if place := kept_for_good(program):
        return (
            f"the training may keep tensors of its batches from epoch to epoch ({place}): each "
            "that a worker has sent holds an open file meanwhile, and these may run out "
            "(`ulimit -n`); copies (`y.clone()`) hold none"
        )
    if place := written_by_samples(program):
        return (
            "as samples are made something is written into a file that may have been opened before "
            f"({place}): workers have copies of what it holds back, which may be lost when they "
            "end, or come to be written later"
        )
    name, written, read = rewritten(program)
    if name:
        return (
            f"the training writes {name} ({written}), and what makes or chooses samples reads "
            f"something of that name ({read}): workers would read it before it is written"
        )
    return ""


def _without_older_files(program: Program, space: Space, loader: SeenLoader) -> Space:
    """`space` without what would read a file earlier, or later, than the program does, which writes
    it between its epochs: workers that live on may keep what they read in the first, those of an
    epoch read it anew, and a program without workers may keep it for good.
    """
    name, written, read = rewritten(program, between_epochs=True)
    if not name:
        return space
    said = f"the training writes {name} between its epochs ({written}), and what makes samples "
    said += f"keeps what it read of such a file ({read}): "
    if "persistent_workers" in space.choices and not loader.persistent_workers:
        reason = f"{said}workers that live on would keep that of an earlier epoch"
        space = space.narrowed_by_text("persistent_workers", (False,), reason)
    if "num_workers" in space.choices:
        own, values = loader.num_workers, space.choices["num_workers"]
        alike = tuple(each for each in values if bool(each) == bool(own))
        reason = f"{said}workers of an epoch read it anew, the program itself would not"
        space = space.narrowed_by_text("num_workers", alike, reason)
    return space
