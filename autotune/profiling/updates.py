"""Whether the optimizer that steps can change anything."""

import os

from autotune.profiling.profile import Doubt
from autotune.workload.seen import Seen


def doubts_of_updates(seen: Seen) -> tuple[Doubt, ...]:
    """What must be known of a program whose optimizer's weights have had no gradient at all."""
    optimizer, place = seen.optimizer, seen.places.optimizer
    if optimizer is None or not optimizer.idle:
        return ()
    built = f", built at {os.path.basename(place.path)}:{place.line}," if place else ""
    return (
        Doubt(
            name="nothing is trained",
            evidence=f"None of the weights of {optimizer.name}{built} has had a gradient so far: "
            "its steps change nothing. It seems to have the weights of another model than the one "
            "whose loss goes backward.",
            advice="Give it the weights of the model that is trained, and search again.",
        ),
    )
