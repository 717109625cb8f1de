"""Loader workers that the source rules out: what no batch that is drawn shows."""

from collections.abc import Callable, Mapping

from autotune.flow.context import Context
from autotune.profiling.profile import Profile
from autotune.source.loops.carried import carried_state
from autotune.source.program import Program
from autotune.source.refusals.caught import caught_of_samples
from autotune.source.refusals.kept_batches import kept_for_good
from autotune.source.refusals.rewritten_files import rewritten, written_by_samples
from autotune.source.refusals.shared import filled_by_several, shared_out_rounded_down
from autotune.trials.space import Space
from autotune.workload.program.imported import whole_program
from autotune.workload.program.target import OBJECTS
from autotune.workload.seen import SeenLoader

# What finds a place in a program's text, and what is said of that.
_Rules = Mapping[Callable[[Program], str], str]


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


def without_several(space: Space, program: Program, loader: SeenLoader) -> Space:
    """`space` without several workers, beside the program's own, where these would leave out a part
    of its stream, or give a state that it carries on what comes from elsewhere, or where they would
    write a file of a cache at once.
    """
    rules = _OF_A_STREAM if loader.iterable else _OF_A_TABLE
    reason = _why(program, rules) if "num_workers" in space.choices else ""
    if not reason:
        return space
    kept = (0, 1, loader.num_workers)
    values = tuple(each for each in space.choices["num_workers"] if each in kept)
    return space.narrowed_by_text("num_workers", values, reason)


def _why(program: Program, rules: _Rules) -> str:
    """What the first of `rules` that finds a place in the text says of it; "" where none does."""
    found = ((rule(program), said) for rule, said in rules.items())
    return next((said.format(place) for place, said in found if place), "")


_OF_A_TABLE: _Rules = {
    filled_by_several: "making a sample may write a file that several samples have in common ({}): "
    "two workers may write it at once, or one read what the other has half written (`os.replace` "
    "puts it there as a whole)",
}
_OF_A_STREAM: _Rules = {
    shared_out_rounded_down: "each worker's share of the stream seems to be rounded down ({}): "
    "what is left over may be read by none",
    carried_state: "the training may carry a state from each batch to the next ({}), and several "
    "workers give batches of their own parts of the stream in turns",
}
_WHERE_THERE_IS_NONE: _Rules = {
    caught_of_samples: "code around the drawing of batches catches exceptions and may go by their "
    "kind or text (caught at {}): out of a worker one comes with a traceback as its text, or as "
    "another kind",
    kept_for_good: "the training may keep tensors of its batches from epoch to epoch ({}): each "
    "that a worker has sent holds an open file meanwhile, and these may run out (`ulimit -n`); "
    "copies (`y.clone()`) hold none",
    written_by_samples: "as samples are made something is written into a file that may have been "
    "opened before ({}): workers have copies of what it holds back, which may be lost when they "
    "end, or come to be written later",
}


def _why_none(program: Program) -> str:
    """Why there may be none where there is none so far."""
    if why := _why(program, _WHERE_THERE_IS_NONE):
        return why
    name, written, read = rewritten(program)
    if not name:
        return ""
    return (
        f"the training writes {name} ({written}), and what makes or chooses samples reads "
        f"something of that name ({read}): workers would read it before it is written"
    )


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
