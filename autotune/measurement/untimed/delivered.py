"""Whether two runs were given the same data, by the digests of what their loaders delivered."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from autotune.profiling.profile import Doubt
from autotune.workload.samples.delivery import Delivery, Digests

NOT_COMPARED = Doubt(
    name="data not compared",
    evidence="Whether workers deliver the same samples as the program is given as it is could not "
    "be compared: they differ each time they are read, or none of those that were drawn of a "
    "stream could be told to be the same.",
    advice="Compare the loss curves of a longer run.",
)
# Workers that share an iterable dataset out each end with an incomplete batch of their own. With
# more than this share of additional batches an epoch is of another batch size.
MOST_MORE_BATCHES = 0.1
# Of so many batches of each, all of one kind hold less than all of the other by chance in one of
# some thousand comparisons; and so many times as many is no longer as good as the same.
FEWEST_MIXED, LESS_MIXED = 6, 0.9
# A stream that is read by several workers that do not share it out repeats more than this.
REPEATED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found: `difference` in words, "" where there is none; `compared` is false where
    nothing could be compared, since the data differ each time they are read; `longer` says of an
    epoch that has a few more batches.
    """

    difference: str = ""
    compared: bool = True
    longer: str = ""


def more_steps(evidence: str) -> Doubt:
    """That epochs are a few steps longer than they were."""
    return Doubt(
        name="more steps",
        evidence=evidence,
        advice="A schedule that counts steps ends as much sooner.",
    )


def compare_in_order(own: Delivery, again: Delivery, other: Delivery) -> Comparison:
    """Compare batch by batch, as a map-style dataset's have to come, what an `other` run is given
    with the program's `own`; what differs from that as it is drawn `again` is random.
    """
    if other.ended and own.ended and len(other.batches) != len(own.batches):
        count = len(other.batches)
        return Comparison(difference=f"an epoch has {count} batches instead of {len(own.batches)}")
    random = _random_leaves(own.batches, again.batches)
    compared = differing = samples = 0
    for mine, theirs in zip(own.batches, other.batches, strict=False):
        rows = _differing_rows(mine, theirs, random)
        if rows is None:
            return Comparison(difference="its batches have other parts or another size")
        differing += rows
        samples += max(map(len, mine), default=0)
        compared += sum(a == b for a, b in zip(mine, theirs, strict=True))
    if differing:
        said = f"{differing} of the first {samples} samples"
        return Comparison(difference=f"{said} (rows of a batch) are others")
    return Comparison(compared=compared > 0)


def compare_shared_out(
    own: Delivery, again: Delivery, other: Delivery, *, workers: int, dropped: int
) -> Comparison:
    """The same of samples in any order, as they come from `workers` that share a dataset out, each
    of which may leave out as many samples as are `dropped` at an epoch's end. What is drawn `again`
    is so with other random numbers.
    """
    slack = workers * dropped
    counts = [sum(map(_count, each.batches)) for each in (own, again, other)]
    alike = own.ended and again.ended and counts[0] == counts[1]
    reason = _other_epoch(counts[0], counts[2], own, other, slack) if alike else ""
    if not reason and workers > 1:
        reason = _outlasts(own, other) or _less_mixed(own, again, other)
    if reason:
        return Comparison(difference=reason)
    leaves = _steady_leaves(own, again)
    mine, theirs = (Counter(_samples(each.batches, leaves)) for each in (own, other))
    if not mine or not theirs:
        return _repeated(own, other)
    if alike and other.ended:
        missing = (mine - theirs).total()
        if missing > slack:
            return Comparison(difference=f"{missing} of the {counts[0]} samples did not come")
        return Comparison(longer=_longer(own, other))
    twice = theirs.total() - len(theirs)
    if twice and len(mine) == mine.total():
        return Comparison(
            difference=f"{twice} of its first {theirs.total()} samples had come before"
        )
    return Comparison(compared=len(mine) == mine.total() and bool(theirs & mine))


def _less_mixed(own: Delivery, again: Delivery, other: Delivery) -> str:
    """That each batch of `other` holds fewer different values of something (labels, say) than each
    of the program's own, in words; "" where it does not, or too few batches came to tell.
    """
    sizes = Counter(_count(batch) for batch in own.batches)
    size = max(sizes, key=sizes.__getitem__, default=0)
    mine = [each for each in (*own.batches, *again.batches) if _count(each) == size > 1]
    theirs = [each for each in other.batches if _count(each) == size]
    if min(len(mine), len(theirs)) < FEWEST_MIXED:
        return ""
    for leaf in range(min(map(len, (*mine, *theirs)))):
        before, after = ([len(set(each[leaf])) for each in some] for some in (mine, theirs))
        if max(after) < min(before) and fmean(after) < LESS_MIXED * fmean(before):
            return (
                f"a batch holds {fmean(after):.0f} different values of one of its parts (labels, "
                f"say), where the program as it is has {fmean(before):.0f}, as where each worker "
                "mixes only its own part of the stream"
            )
    return ""


def _outlasts(own: Delivery, other: Delivery) -> str:
    """Why training would end in an error: a scheduler counts its steps, and there may be more."""
    if own.lasts is None or (own.ended and other.ended and not _longer(own, other)):
        return ""
    more = _longer(own, other) or (
        "an epoch may have more batches: each worker's last may be incomplete"
    )
    return f"{more}; the program's OneCycleLR ends in an error after {own.lasts:,} steps"


def _longer(own: Delivery, other: Delivery) -> str:
    """That an epoch of `other` has more batches than one of `own`; "" where that was not seen."""
    if not (own.ended and other.ended) or len(other.batches) <= len(own.batches):
        return ""
    return (
        f"an epoch has {len(other.batches)} batches instead of {len(own.batches)}, as where each "
        "worker ends with an incomplete one"
    )


def _repeated(own: Delivery, other: Delivery) -> Comparison:
    """Of samples that come in an order of their own each time: whether they come more than once."""
    common = min(min(map(len, each.batches), default=0) for each in (own, other))
    mine, theirs = (Counter(_samples(each.batches, range(common))) for each in (own, other))
    twice = theirs.total() - len(theirs)
    if common and len(mine) == mine.total() and twice > REPEATED * theirs.total():
        return Comparison(
            difference=f"{twice} of its first {theirs.total()} samples had come before"
        )
    return Comparison(compared=False)


def same_from_each(other: Delivery, workers: int) -> bool:
    """Whether every worker gave the same when all drew the same random numbers: none of them asked
    which one it is.
    """
    rounds = [
        other.batches[start : start + workers]
        for start in range(0, len(other.batches) - workers + 1, workers)
    ]
    return bool(rounds) and all(a == b for batch in rounds for a, b in pairwise(batch))


def begin_alike(own: Delivery, again: Delivery, first: Delivery, second: Delivery) -> bool:
    """Whether something that differs when the program reads it again is the same in two epochs of
    workers, the `second` of workers started again with other seeds of their own, each of which
    reads from copies of the dataset as it was; of an iterable dataset, one batch of each.
    """
    same: dict[int, bool] = {}
    batches = (each.batches for each in (own, again, first, second))
    for leaves in zip(*batches, strict=False):
        for leaf, (mine, later, one, other) in enumerate(zip(*leaves, strict=False)):
            if mine != later:
                same[leaf] = same.get(leaf, True) and one == other
    return any(same.values())


def _random_leaves(own: Sequence[Digests], again: Sequence[Digests]) -> set[int]:
    """Which leaves of a batch differ when it is read once more."""
    return {
        leaf
        for mine, theirs in zip(own, again, strict=False)
        for leaf, (a, b) in enumerate(zip(mine, theirs, strict=False))
        if a != b
    }


def _differing_rows(own: Digests, other: Digests, random: set[int]) -> int | None:
    """The most rows in which a leaf that is not random differs; None where the batches are made in
    another way.
    """
    if [len(leaf) for leaf in own] != [len(leaf) for leaf in other]:
        return None
    return max(
        (
            sum(a != b for a, b in zip(mine, theirs, strict=True))
            for leaf, (mine, theirs) in enumerate(zip(own, other, strict=True))
            if leaf not in random
        ),
        default=0,
    )


def _other_epoch(count: int, others: int, own: Delivery, other: Delivery, slack: int) -> str:
    if others > count + slack:
        more = "" if other.ended else "at least "
        return f"an epoch has {more}{others} samples instead of {count}"
    if other.ended and others < count - slack:
        return f"an epoch has {others} samples instead of {count}"
    if other.ended and len(other.batches) > (1 + MOST_MORE_BATCHES) * len(own.batches):
        return _longer(own, other)
    return ""


def _steady_leaves(own: Delivery, again: Delivery) -> list[int]:
    """The leaves that hold the same samples when they are read once more, in whatever order."""
    common = min(len(own.batches), len(again.batches))
    mine, theirs = own.batches[:common], again.batches[:common]
    leaves = range(min(map(len, (*mine, *theirs)), default=0))
    return [
        leaf
        for leaf in leaves
        if Counter(_samples(mine, [leaf])) == Counter(_samples(theirs, [leaf]))
    ]


def _count(batch: Digests) -> int:
    """Samples in a batch: the rows of its leaves where all have as many, else one."""
    counts = {len(leaf) for leaf in batch}
    return counts.pop() if len(counts) == 1 else 1


def _samples(batches: Iterable[Digests], leaves: Sequence[int]) -> Iterable[tuple[object, ...]]:
    """Each sample by the digests of its `leaves`; none without leaves."""
    for batch in batches:
        if not leaves:
            return
        chosen = [batch[leaf] for leaf in leaves]
        if len(set(map(len, chosen))) == 1:
            yield from zip(*chosen, strict=True)
        else:
            yield tuple(chosen)
