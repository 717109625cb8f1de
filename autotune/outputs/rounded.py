"""What a shorter number format may do to a training that its compared losses do not show."""

from autotune.profiling.profile import ROUNDED_PREDICTIONS
from autotune.result import Result


def rounded(result: Result) -> str:
    """That predictions of the tuned program are rounded, as far as was seen: the same training is
    the same only while errors are larger. "" where they are not.
    """
    space, verdict = result.space, result.verdict
    if space is None or verdict is None:
        return ""
    precision, doubt = verdict.config.get("precision"), space.doubts.get("precision")
    if doubt is None or doubt.name != ROUNDED_PREDICTIONS or f" {precision} " not in doubt.evidence:
        return ""
    return doubt.evidence
