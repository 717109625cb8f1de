"""How far the training of what is handed back was compared, for the first sentence."""

from autotune.outputs.wording import counted
from autotune.verdict import Verdict


def same_training(verdict: Verdict) -> str:
    """That it is the same training, with the place that no step past the first ones reached, where
    one is known.
    """
    if not verdict.not_reached:
        return "same training"
    first, *others = verdict.not_reached
    more = f" and {counted(len(others), 'other place')} were" if others else " was"
    at = f"past its first steps {first}{more} not reached"
    return f"same training as far as it was compared: {at}"
