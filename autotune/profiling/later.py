"""What must be known of a program whose later steps are others than those that are timed."""

import os

from autotune.profiling.profile import LATER_LOADER, LATER_STAGE, REPLACED, THAWS, Doubt

_ANOTHER_TIME = "gains less or more. All figures are of the steps that came."


def doubts_of_later_steps(
    *, thawed: str, replaced: str, stage: str, loader: str
) -> tuple[Doubt, ...]:
    """The doubts of a program whose source shows where it does so, each as file and line, "" where
    it does not: it gives gradients to weights between epochs, puts other weights in its model's
    place, trains in another way from some epoch or step on, or builds another loader.
    """
    found = (
        Doubt(
            name=THAWS,
            evidence="Between its epochs the program gives gradients to weights anew "
            f"({_short(thawed)}): phases that come later compute more, and may gain otherwise. All "
            "figures are of the first.",
            advice="Measure a later phase too: begin with it, where the program has an option for "
            "that.",
        ),
        Doubt(
            name=REPLACED,
            evidence="While it trains the program puts other weights in the place of its model's "
            f"({_short(replaced)}), as cutting and growing do: what comes after that takes another "
            f"time, and {_ANOTHER_TIME}",
            advice="Time whole runs of both, or measure a later phase too.",
        ),
        Doubt(
            name=LATER_STAGE,
            evidence="From some epoch or step on the program trains in another way "
            f"({_short(stage)}: another loss or more passes, weights frozen, more in a step, "
            f"or less): what comes then takes another time, and {_ANOTHER_TIME}",
            advice="Time whole runs of both, or measure a later stage too.",
        ),
        Doubt(
            name=LATER_LOADER,
            evidence=f"In its training the program builds a loader ({_short(loader)}) that was not "
            "built while it was looked at: steps that draw from it take another time, and "
            f"{_ANOTHER_TIME}",
            advice="Time whole runs of both, or begin with that loader and measure again.",
        ),
    )
    told = (thawed, replaced, "" if thawed or replaced else stage, loader)
    return tuple(doubt for doubt, place in zip(found, told, strict=True) if place)


def _short(place: str) -> str:
    return os.path.basename(place)
