"""What must be known of a program whose later steps are others than those that are timed."""

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

_ANOTHER_TIME = (
    "may take longer or shorter, and gain more or less. All figures are of the steps that came."
)
# Evidence, with the place where the source shows it, and advice.
_SAID = {
    THAWS: (
        (
            "By its source the program gives gradients to weights anew between its epochs "
            "({place}): where it comes to that, a step computes more, and may gain otherwise. All "
            "figures are of the steps that came."
        ),
        "Measure a later phase too: begin with it, where the program has an option for that.",
    ),
    REPLACED: (
        (
            "By its source the program makes a parameter, or prunes weights, while it trains "
            "({place}), as cutting and growing a model do: where it comes to that, a step "
            f"{_ANOTHER_TIME}"
        ),
        "Time whole runs of both, or measure a later phase too.",
    ),
    LATER_STAGE: (
        (
            "By its source the program trains in another way from some epoch or step on ({place}: "
            "another loss or more passes, weights frozen, more in a step, or less): where it comes "
            f"to that, a step {_ANOTHER_TIME}"
        ),
        "Time whole runs of both, or measure a later stage too.",
    ),
    LATER_LOADER: (
        (
            "By its source the program builds a loader in its training ({place}) that was not "
            f"built while it was looked at: a step that draws from it {_ANOTHER_TIME}"
        ),
        "Time whole runs of both, or begin with that loader and measure again.",
    ),
    LATER_SAMPLES: (
        (
            "By its source the training may change what its samples are made by ({place}): later "
            f"ones may take longer or shorter to make, and a step with them {_ANOTHER_TIME}"
        ),
        "Time whole runs of both, or begin with what it comes to and measure again.",
    ),
    MOVED_CHANCE: (
        (
            "By its source a random number is held against a chance that the training moves "
            "({place}), as exploring is: how much a step computes may go by that, and where the "
            f"chance has moved, it {_ANOTHER_TIME}"
        ),
        "Time whole runs of both, or begin with the chance that it comes to and measure again.",
    ),
    OTHER_SIZES: (
        (
            "By its source the program trains again and again, each time with something else of "
            "which its model or its data are built ({place}): what comes later "
            f"{_ANOTHER_TIME}"
        ),
        "Time whole runs of both, or begin with the one that takes most of the time.",
    ),
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
        Doubt(name=name, evidence=evidence.format(place=at), advice=advice)
        for name, (evidence, advice) in _SAID.items()
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
