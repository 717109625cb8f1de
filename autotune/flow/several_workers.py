"""Data that several workers would not give the program as it has them, by its text."""

from autotune.source.loops.carried import carried_state
from autotune.source.program import Program
from autotune.source.refusals.shared import filled_by_several, shared_out_rounded_down
from autotune.trials.space import Space
from autotune.workload.seen import SeenLoader


def without_several(space: Space, program: Program, loader: SeenLoader) -> Space:
    """`space` without several workers, beside the program's own, where these would leave out a part
    of its stream, or give a state that it carries on what comes from elsewhere, or where they would
    write a file of a cache at once.
    """
    why = _why_of_a_stream if loader.iterable else _why_of_a_table
    reason = why(program) if "num_workers" in space.choices else ""
    if not reason:
        return space
    kept = tuple(
        each for each in space.choices["num_workers"] if each in (0, 1, loader.num_workers)
    )
    return space.narrowed_by_text("num_workers", kept, reason)


def _why_of_a_table(program: Program) -> str:
    if place := filled_by_several(program):
        return (
            f"making a sample may write a file that several samples have in common ({place}): two "
            "workers may write it at once, or one read what the other has half written "
            "(`os.replace` puts it there as a whole)"
        )
    return ""


def _why_of_a_stream(program: Program) -> str:
    if place := shared_out_rounded_down(program):
        return (
            f"each worker's share of the stream seems to be rounded down ({place}): what is left "
            "over may be read by none"
        )
    if state := carried_state(program):
        return (
            f"the training may carry a state from each batch to the next ({state}), and several "
            "workers give batches of their own parts of the stream in turns"
        )
    return ""
