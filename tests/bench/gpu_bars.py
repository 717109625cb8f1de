"""The bars of the GPU's bench, computed from the raw results in its files."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tests.bench.delivered import ORIGINAL, TUNED
from tests.bench.gpu_unit import AS_IT_IS, RIVAL
from tests.bench.stopwatch import mean_and_reach

Document = Mapping[str, Any]

# From the task that the bench was written for.
MOST_OF_ITS_SEARCH_TIME = 0.5
RIVAL_WORKLOADS = 3
LEAST_JPEG_SPEEDUP = 5.65
CLAIM_OFF_BY = 0.03
MOST_OVERHEAD = 0.02
MEMORY_OFF_BY = 0.05
MOST_PROBES, MOST_OUT_OF_MEMORY = 10, 3
# Two accuracies on 1,024 samples differ by chance: by a point.
ONE_POINT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: what was measured, and whether it is met; None where that is not known."""

    name: str
    measured: str
    holds: bool | None

    def __str__(self) -> str:
        word = {True: "met", False: "MISSED", None: "not known"}[self.holds]
        return f"{word:12}  {self.name}: {self.measured}"


def bars(documents: Sequence[Document], names: Sequence[str] = ()) -> list[Bar]:
    """Every bar, by the documents that there are; of the measurements `names` also those without
    one.
    """
    measured = {each["name"]: each["measured"] for each in documents if "measured" in each}
    failed = [
        Bar(name=each["name"], measured=each["failed"][:200], holds=None)
        for each in documents
        if "failed" in each
    ]
    return [
        *_planted(measured),
        *_overhead(measured.get("overhead")),
        *_memory(measured.get("memory")),
        *_parity(measured.get("parity")),
        *_rivals(measured),
        *_jpeg(measured),
        *failed,
        *_missing(documents, names),
    ]


def _missing(documents: Sequence[Document], names: Sequence[str]) -> list[Bar]:
    there = {each["name"] for each in documents}
    return [
        Bar(name=name, measured="there is no file yet", holds=None)
        for name in names
        if name not in there
    ]


def _planted(measured: Mapping[str, Any]) -> Iterator[Bar]:
    for name, facts in measured.items():
        if name.startswith("planted-"):
            missed = facts["missed"]
            said = facts["result"]["diagnosis"][0]["headline"]
            yield Bar(name=name, measured="; ".join(missed) or said, holds=not missed)


def _overhead(facts: Any) -> Iterator[Bar]:
    for name, loop in (facts or {}).get("loops", {}).items():
        dearest = max((loop[kind] for kind in ("profile", "turns")), key=_cost_share)
        low, high = dearest["interval"]
        yield Bar(
            name=f"watching a {name} loop costs at most {MOST_OVERHEAD:.0%}",
            measured=f"{_cost_share(dearest):+.1%} ({low:+.1%} to {high:+.1%}; "
            f"{_cost_share(loop['closing']):+.1%} as its windows are closed)",
            holds=None if low <= MOST_OVERHEAD < high else high <= MOST_OVERHEAD,
        )


def _cost_share(facts: Mapping[str, Any]) -> float:
    share: float = facts["cost_share"]
    return share


def _memory(facts: Any) -> Iterator[Bar]:
    if not facts:
        return
    off = facts["predicted_samples"] / facts["true_samples"] - 1
    probes, failures = facts["probes"], facts["out_of_memory"]
    yield Bar(
        name=f"the largest micro-batch is predicted within {MEMORY_OFF_BY:.0%}",
        measured=f"{off:+.1%}, by {probes} probes with {failures} out of memory, "
        f"{facts['epoch_out_of_memory']} in an epoch",
        # Within the epoch the allocator may ask again, which costs time and no batch.
        holds=abs(off) <= MEMORY_OFF_BY
        and probes <= MOST_PROBES
        and failures <= MOST_OUT_OF_MEMORY
        and facts["epoch_out_of_memory"] == 0,
    )


def _parity(facts: Any) -> Iterator[Bar]:
    accuracy = (facts or {}).get("accuracy", {})
    for name, found in accuracy.items():
        if name == AS_IT_IS:
            continue
        differences = [a - b for a, b in zip(found, accuracy[AS_IT_IS], strict=True)]
        off, reach = mean_and_reach(differences)
        band = max(reach or 0.0, ONE_POINT)
        yield Bar(
            name=f"a model learns the same in {name}",
            measured=f"accuracy {off:+.2%} over {len(found)} seeds, where {band:.2%} is chance",
            holds=abs(off) <= band,
        )


def _rivals(measured: Mapping[str, Any]) -> Iterator[Bar]:
    ratios = []
    for name, facts in measured.items():
        theirs, ours = (measured.get(f"{name}-{whose}") for whose in ("theirs", "ours"))
        if theirs is None or ours is None:
            continue
        ratio = _speed(facts, TUNED) / _speed(facts, RIVAL)
        time_share = ours["wall_seconds"] / theirs["wall_seconds"]
        ratios.append(ratio)
        yield Bar(
            name=f"{name}: as fast as pytorch-autotune's pick, in at most half its search time",
            measured=f"{ratio:.2f}x as fast, in {time_share:.2f} of its search time",
            holds=ratio >= 1 and time_share <= MOST_OF_ITS_SEARCH_TIME,
        )
        yield _claim(name, ours["claim"], _speed(facts, TUNED) / _speed(facts, ORIGINAL))
    if ratios:
        mean = math.exp(fmean(map(math.log, ratios)))
        yield Bar(
            name="faster than pytorch-autotune on the geometric mean",
            measured=f"{mean:.2f}x over {len(ratios)} of {RIVAL_WORKLOADS} workloads",
            holds=mean > 1 if len(ratios) == RIVAL_WORKLOADS else None,
        )


def _jpeg(measured: Mapping[str, Any]) -> Iterator[Bar]:
    facts, ours = measured.get("rivals-jpeg"), measured.get("rivals-jpeg-ours")
    if not facts or not ours:
        return
    gain = facts["speedup"]["estimate"]
    yield Bar(
        name=f"JPEG training at least {LEAST_JPEG_SPEEDUP}x over num_workers=0",
        measured=f"{gain:.2f}x",
        holds=gain >= LEAST_JPEG_SPEEDUP,
    )
    yield _claim("rivals-jpeg", ours["claim"], gain)


def _claim(name: str, claim: Mapping[str, Any], gain: float) -> Bar:
    """What is claimed against what was found; a search without a gain claims nothing."""
    bar = f"{name}: reported against delivered within {CLAIM_OFF_BY:.0%}"
    if claim["outcome"] != "faster":
        return Bar(name=bar, measured=f"nothing is claimed ({claim['outcome']})", holds=None)
    off = claim["speedup"] / gain - 1
    return Bar(name=bar, measured=f"{off:+.1%}", holds=abs(off) <= CLAIM_OFF_BY)


def _speed(facts: Mapping[str, Any], contestant: str) -> float:
    """Samples per second; who hands nothing back is the original."""
    rates = facts["samples_per_second"]
    return fmean(rates.get(contestant, rates[ORIGINAL]))
