"""What must be known of a program whose later steps are others than those that are timed, or whose
steps change nothing.
"""

import os

from autotune.profiling.profile import (
    LATER_LOADER,
    LATER_SAMPLES,
    LATER_STAGE,
    MOVED_CHANCE,
    OTHER_SIZES,
    REPLACED,
    THAWS,
    Doubt,
)
from autotune.workload.seen import Seen

# Evidence, with the place where the source shows it.
_SAID = {
    THAWS: "gives gradients to weights anew between its epochs",
    REPLACED: "makes a parameter, or prunes weights, while it trains",
    LATER_STAGE: "trains in another way from some epoch or step on",
    LATER_LOADER: "builds a loader in its training that was not built while it was looked at",
    LATER_SAMPLES: "may change what its samples are made by while it trains",
    MOVED_CHANCE: "holds a random number against a chance that the training moves",
    OTHER_SIZES: "trains again and again, each time with something else of which its model or its "
    "data are built",
}


def doubts_of_later_steps(
    *, thawed: str, replaced: str, stage: str, loader: str, samples: str, chance: str, sizes: str
) -> tuple[Doubt, ...]:
    """The doubts of a program whose source shows where it does so, each as file and line, "" where
    it does not: it gives gradients to weights between epochs, puts other weights in its model's
    place, trains in another way from some epoch or step on, builds another loader, changes what its
    samples are made by, moves a chance by which its steps compute more or less, or goes through
    trainings of several sizes.
    """
    places = {
        THAWS: thawed,
        REPLACED: replaced,
        LATER_STAGE: "" if thawed or replaced else stage,
        LATER_LOADER: loader,
        LATER_SAMPLES: samples,
        MOVED_CHANCE: chance,
        OTHER_SIZES: sizes,
    }
    return tuple(
        Doubt(
            name=name,
            evidence=f"By its source the program {does} ({at}): where it comes to that, a step may "
            "take longer or shorter, and gain more or less.",
            advice="Time whole runs of both, or begin with what comes later and measure again.",
        )
        for name, does in _SAID.items()
        if (at := places[name])
    )


def doubts_of_last_batch(seen: Seen) -> tuple[Doubt, ...]:
    """What must be known of a program that did not come to the end of an epoch, whose last batch is
    one sample that batch norm may refuse.
    """
    loader = seen.loader
    if loader is None or not loader.batch_size or not loader.dataset_length:
        return ()
    whole = loader.drop_last or loader.custom_batches or loader.iterable or loader.epochs > 1
    samples, size = loader.dataset_length, loader.batch_size
    batches, over = divmod(samples, size)
    if whole or size == 1 or over != 1 or loader.length != batches + 1:  # a sampler may give others
        return ()
    if not any(model.flat_norms for model in seen.models):
        return ()
    return (
        Doubt(
            name="last batch of one",
            evidence=f"The last batch of an epoch is a single sample ({samples:,} = "
            f"{batches:,} batches of {size:,} and 1), and the model has batch norms of "
            "one dimension: where those are given one number a channel, torch ends the training "
            'there ("Expected more than 1 value per channel when training").',
            advice="Give the training's loader drop_last=True, or another batch size.",
        ),
    )


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
