"""How long a whole run of the program is, as far as its text tells."""

import math

from autotune.diagnosis.validation import steps_of_an_epoch
from autotune.source.loops.epochs import most_epochs
from autotune.workload.program.imported import whole_program
from autotune.workload.program.target import RECIPE, Target
from autotune.workload.seen import Seen


def most_steps(target: Target, seen: Seen) -> int | None:
    """How many steps a run has at the most; None where its epochs or their length are not known, or
    it trains in other loops too.
    """
    steps = steps_of_an_epoch(seen)
    others = seen.passed_loops or seen.taking_turns
    if not target.path or target.kind == RECIPE or steps == math.inf or others:
        return None
    epochs = most_epochs(whole_program(target, seen), dict(seen.options))
    return None if epochs is None else math.ceil(epochs * steps)
