"""Why of the trials this one was judged, where speed alone did not tell."""

from autotune.diagnosis.finding import end, times
from autotune.result import SearchFacts


def chosen(search: SearchFacts) -> str:
    """How the two best came out beside one another, what was left out of the best, and what was
    judged therefore; "" where its own trial told.
    """
    said = []
    if search.rematch:
        (first, second), ratio = search.rematch.trials, search.rematch.ratio
        interval = f"{end(ratio.low)} to {end(ratio.high)}"
        unclear = ", no clear difference" if ratio.low < 1 < ratio.high else ""
        said.append(
            f"in turns, trial {second} came out {times(ratio.estimate)} ({interval}) beside trial "
            f"{first}{unclear}"
        )
    said += [f"trials with {each} were no faster than without" for each in search.left_out]
    judged = "" if search.judged is None else f": trial {search.judged} is judged"
    return f"{'; '.join(said)}{judged}" if said else ""
