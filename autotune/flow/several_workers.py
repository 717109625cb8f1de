"""Streams that several workers would not give the program as it has them, by its text."""

import os

from autotune.source.loops.carried import carried_state
from autotune.source.program import Program
from autotune.source.refusals.shared_out import shared_out_rounded_down
from autotune.trials.space import Space


def without_several(space: Space, program: Program, own: int) -> Space:
    """`space` without several workers, beside the program's `own`, where these would leave out a
    part of its stream, or give a state that it carries on what comes from elsewhere.
    """
    reason = _why(program) if "num_workers" in space.choices else ""
    if not reason:
        return space
    kept = tuple(each for each in space.choices["num_workers"] if each in (0, 1, own))
    return space.narrowed("num_workers", kept, reason)


def _why(program: Program) -> str:
    if place := shared_out_rounded_down(program):
        return (
            f"each worker's share of the stream is rounded down ({os.path.basename(place)}): what "
            "is left over would be read by none"
        )
    if state := carried_state(program):
        return (
            f"the training carries its state from each batch to the next ({state}), and several "
            "workers give batches of their own parts of the stream in turns"
        )
    return ""
