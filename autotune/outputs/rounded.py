"""What a shorter number format may do to a training that its compared losses do not show."""

from autotune.profiling.profile import ROUNDED_PREDICTIONS
from autotune.result import Result

_LONGER = ("fp32", "tf32")  # in which predictions are not rounded


def rounded(result: Result) -> str:
    """That predictions of the tuned program are rounded, as far as was seen: the same training is
    the same only while errors are larger. "" where they are not.
    """
    space, verdict = result.space, result.verdict
    if space is None or verdict is None or verdict.config.get("precision", "fp32") in _LONGER:
        return ""
    doubt = space.doubts.get("precision")
    return doubt.evidence if doubt and doubt.name == ROUNDED_PREDICTIONS else ""
