"""Why of the two best trials this one was taken, where their own speeds did not tell."""

from autotune.diagnosis.finding import end, times
from autotune.result import SearchFacts


def chosen(search: SearchFacts) -> str:
    """How the two best came out beside one another, and which was taken; "" where they took no
    turns.
    """
    if search.rematch is None:
        return ""
    (first, second), ratio = search.rematch.trials, search.rematch.ratio
    interval = f"{end(ratio.low)} to {end(ratio.high)}"
    unclear = ", no clear difference" if ratio.low < 1 < ratio.high else ""
    taken = search.rematch.taken
    return (
        f"in turns, trial {second} came out {times(ratio.estimate)} ({interval}) beside trial "
        f"{first}{unclear}{'' if taken is None else f': trial {taken} was taken'}"
    )
