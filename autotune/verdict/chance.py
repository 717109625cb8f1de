"""Whether chance alone takes a training as far as settings do, by runs in which it is another."""

import math
from collections.abc import Sequence
from statistics import fmean

from autotune.verdict.courses import (
    around_furthest,
    first_difference,
    furthest,
    heights,
    scatter_ratio,
    smooth,
    width_of,
)

CHAOTIC = (
    "Chance alone (rounding, other random numbers) takes this training about as far: whether it is "
    "the same cannot be told by its losses."
)
BY_SEED = (
    "But another seed takes this training as far, and what the settings do is lost in that: "
    "whether it is the same cannot be told by its losses."
)
NO_WAY = (
    "But with other seeds the settings do not take it the same way again: whether it is the same "
    "cannot be told by its losses."
)
UNSEEN = "How far chance alone takes this training was not seen: it was not shown to be the same."
FEWEST_STEPS = 20

# Some trainings are taken apart by rounding alone, or by other random numbers in reading samples,
# which other workers have. Where weights moved by this share of themselves (some units in the last
# place of float32), or such numbers, take the losses at least half as far, what parts them may be
# chance, and nothing is said: neither that it is the same training nor that it is another. Half was
# chosen, not measured.
NUDGE = 1e-6
TIMES_BY_CHANCE = 2.0

# Another seed has other batches too, which take single losses apart in any training: it has to take
# it as far as the settings do. And what the settings do to a training they do with any seed: other
# learning rates take it the same way again, about as far, where rounding takes it now up and now
# down. So settings that go the own way again with so many seeds, at least half as far, are another
# training. Nothing is said of fewer, nor where one of them does not go that way, though none goes
# as far. Both numbers were chosen, not measured.
SAME_WAY = 0.5
SEEDS_ONE_WAY = 2
# Unless it is little: on average over the later steps, which evens batches out, so much less than
# what each of as many seeds does. Rounding may go mostly one way too: bfloat16 moved the loss of a
# small BYOL mostly down, by far less than seeds lay apart. Chosen, not measured.
LITTLE = 4.0

Losses = Sequence[float]
Pair = tuple[Losses, Losses]  # of one seed: the program as it is, and with the settings


def takes_as_far(first: Losses, second: Losses, controls: Sequence[Losses], late: int) -> bool:
    """Whether the smoothed curve of any of `controls` gets at least half as far from the first as
    the second does, around where that is furthest in the steps that it has.
    """
    return any(_share(first, second, each, late) * TIMES_BY_CHANCE >= 1 for each in controls)


def came_so_far(first: Losses, second: Losses, steps: int, late: int) -> bool:
    """Whether a control of so many steps came to where the losses part."""
    if steps < FEWEST_STEPS:
        return False
    largest, band = furthest(first[:steps], second[:steps], late)
    return largest > band


def explained_by_seeds(
    first: Losses, second: Losses, pairs: Sequence[Pair], late: int = 0
) -> bool | None:
    """Whether what parts `first` and `second` may be the chance that a seed is; None where a
    further one of `pairs` would tell.
    """
    if scatter_ratio(first, second) is not None:
        return False
    seen = _told(first, second, pairs, late)
    if any(not math.isfinite(loss) for _, tuned in seen for loss in tuned):
        return False
    if len(seen) < SEEDS_ONE_WAY:
        return None
    as_far = max(_share(first, second, own, late) for own, _ in seen)
    all_ways = _go_the_same_way(first, second, seen, late)
    little = _little(first, second, seen) if as_far >= 1 else 0
    if as_far >= 1 and (not all_ways or little >= SEEDS_ONE_WAY):
        return True
    return False if all_ways and not little else None


def _told(first: Losses, second: Losses, pairs: Sequence[Pair], late: int) -> list[Pair]:
    """Those of `pairs`, as far as both came, whose own losses are others than the first and came to
    where the losses part.
    """
    found = list[Pair]()
    for own, tuned in pairs:
        steps = min(len(first), len(own), len(tuned))
        if is_another(first, own[:steps]) and came_so_far(first, second, steps, late):
            found.append((own[:steps], tuned[:steps]))
    return found


def is_another(first: Losses, own: Losses) -> bool:
    """Whether a seed did something: `own` are losses, and others than the program's first."""
    return all(map(math.isfinite, own)) and first_difference(first, own) is not None


def of_course(
    first: Losses, second: Losses, controls: Sequence[Losses], pairs: Sequence[Pair], late: int
) -> tuple[bool | None, str]:
    """Whether losses that part beyond their band are another training, by what controls say."""
    if scatter_ratio(first, second) is not None:
        return False, ""
    seen = [each for each in controls if came_so_far(first, second, len(each), late)]
    if takes_as_far(first, second, seen, late):
        return None, CHAOTIC
    if explained_by_seeds(first, second, pairs, late):
        return None, BY_SEED
    told = _told(first, second, pairs, late)
    enough = len(told) >= SEEDS_ONE_WAY
    if enough and not _go_the_same_way(first, second, told, late):
        return None, NO_WAY
    return False, "" if seen and (enough or not pairs) else UNSEEN


def _share(first: Losses, second: Losses, control: Losses, late: int) -> float:
    """How far the smoothed curve of `control` gets from the first, by how far the second does,
    around where that is furthest.
    """
    first, second = first[: len(control)], second[: len(control)]
    where = around_furthest(first, second, late)
    apart, by_chance = (abs(_difference(first, (first, each), where)) for each in (second, control))
    return by_chance / apart if apart else math.inf


def _difference(first: Losses, pair: Pair, where: slice) -> float:
    """The largest of the smoothed curves, relative to the first's height, with its sign."""
    own, tuned = (smooth(each, width_of(len(first))) for each in pair)
    apart = ((b - a) / height for a, b, height in zip(own, tuned, heights(first), strict=True))
    return max([*apart][where], key=abs, default=0.0)


def _little(first: Losses, second: Losses, pairs: Sequence[Pair]) -> int:
    """Beside how many seeds it is little what the settings do, in the steps that all have."""
    steps = min(len(own) for own, _ in pairs)
    levels = [(_level(own[:steps]), _level(tuned[:steps])) for own, tuned in pairs]
    own = _level(first[:steps])
    moved = max(abs(b - a) for a, b in ((own, _level(second[:steps])), *levels))
    return sum(abs(other - own) >= LITTLE * moved for other, _ in levels)


def _level(losses: Losses) -> float:
    return fmean(losses[len(losses) // 2 :])


def _go_the_same_way(first: Losses, second: Losses, pairs: Sequence[Pair], late: int) -> bool:
    """Whether the settings do to the training with each other seed what they did to the first."""
    return all(_goes_the_same_way(first, second, pair, late) for pair in pairs)


def _goes_the_same_way(first: Losses, second: Losses, pair: Pair, late: int) -> bool:
    steps = len(pair[0])
    first, second = first[:steps], second[:steps]
    where = around_furthest(first, second, late)
    difference, again = (_difference(first, each, where) for each in ((first, second), pair))
    return again * difference > 0 and abs(again) >= SAME_WAY * abs(difference)
