"""Why of the two best trials this one was taken, where their own speeds did not tell."""

from autotune.diagnosis.finding import times
from autotune.outputs.wording import interval_text
from autotune.result import Rematch, Result


def chosen(result: Result) -> str:
    """How the two best came out beside one another, which was taken, and what was in its place
    later; "" where they took no turns.
    """
    rematch, verdict = result.search.rematch if result.search else None, result.verdict
    if rematch is None:
        return ""
    said = _came_out(rematch)
    if rematch.taken is not None:
        alone = set(rematch.trials) <= set(rematch.failed)
        said += f": trial {rematch.taken} was taken" + ", as it came out best by itself" * alone
    if verdict is None or not verdict.passed_over:
        return said
    number = next((each.number for each in result.trials if each.config == verdict.config), None)
    instead = "the next best" if number is None else f"trial {number}, the next best,"
    return f"{said}; later, when it was judged, {instead} took its place"


def _came_out(rematch: Rematch) -> str:
    (first, second), ratio = rematch.trials, rematch.ratio
    if ratio is None:
        which = " and ".join(f"trial {number}" for number in rematch.failed)
        return f"in turns, {which} failed ({rematch.reason.rstrip('.')})"
    unclear = ", no clear difference" if ratio.low < 1 < ratio.high else ""
    return (
        f"in turns, trial {second} came out {times(ratio.estimate)} "
        f"({interval_text(ratio)}) beside trial {first}{unclear}"
    )
