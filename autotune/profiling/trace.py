"""What a trace of a few steps says of the device's time: busy, copying, or idle, and why.

The trace is the profiler's (Kineto's) JSON, read by the standard library. Taking it slows the
launches down: its shares say what the device waits for, never how fast a program is.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from autotune.profiling.intervals import Interval, gaps, intersection, total, union
from autotune.profiling.lost import RUNTIME, correlation, whole_steps
from autotune.workload.seen import NOTABLE_BYTES

TO_DEVICE, TO_HOST = "HtoD", "DtoH"
PAGEABLE, PINNED = "pageable", "pinned"
# What the device can be idle for.
DATA, COPY, SYNC, LAUNCH, OTHER = "data", "copy", "sync", "launch", "other"

_COPY_NAME = re.compile(r"Memcpy (\w+) \((\w+) -> (\w+)\)")
_LOADER = "enumerate(DataLoader)"  # torch names its loaders' waits so
_SYNCHRONISES = re.compile(
    r"cuda(Stream|Device|Event)Synchronize|cu(Stream|Ctx|Event)Synchronize|cudaMemcpy(_v\d+)?(_ptds)?$"
)
_SUBMITS = re.compile(r"(cuda|cu)(Launch|Graph|Memcpy|Memset)")
_WORK, _COPIES = ("kernel", "gpu_memset"), ("gpu_memcpy",)
_HOST = ("cpu_op", "user_annotation", *RUNTIME)
_MICROSECONDS = 1e-6
# The host's clock and the device's are aligned to some microseconds; a launch takes about as long.
_SKEW_MICROSECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Copies in one direction ("HtoD", "DtoH", "DtoD"), by the host's memory that they went from or
    to: "pageable", "pinned", or "" where there is none. `bytes_per_second` is of those of a batch's
    size, by the device's own time; None without any.
    """

    direction: str
    memory: str
    count: int
    bytes: int
    seconds: float
    largest_bytes: int
    bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The device in a few traced steps. Shares are of the time from the first step's begin, or
    the end of the device's work for the step before, to the last kernel's end.

    Attributes:
        steps: that were traced.
        seconds: that they took under the profiler.
        busy_share: in which some kernel ran, as the union of their intervals.
        kernels: that ran.
        kernel_seconds: their mean length; None without any.
        copies: by direction and memory.
        exposed_copy_share: in which the device did nothing but copy from the host.
        other_copy_share: in which it did nothing but copy back, or from place to place.
        hidden_share: of the time of copies to the device, what kernels ran beside; None without.
        idle: the share in which the device did nothing, by cause: "data" (the loader was waited
            for), "copy" and "sync" (the host had waited for the device to finish copies to it of
            a batch's size, or for another reason, and could only then go on), "launch" (the host
            was late for no such reason), "other" (the work was there in time).
        syncs_per_step: in which the host waited for the device, copies of batches to it left out.
        gpus: that kernels ran on, as if they were one.
    """

    steps: int
    seconds: float
    busy_share: float
    kernels: int
    kernel_seconds: float | None
    copies: tuple[Copies, ...] = ()
    exposed_copy_share: float = 0.0
    other_copy_share: float = 0.0
    hidden_share: float | None = None
    idle: Mapping[str, float] = field(default_factory=dict)
    syncs_per_step: float = 0.0
    gpus: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sync:
    """A call in which the host waited for the device; `for_copy` says that it was for copies to it
    of a batch's size.
    """

    begin: float
    end: float
    for_copy: bool


def parse_trace(text: str | bytes, *, steps: int, leading: int = 0) -> Trace | None:
    """The Trace of the profiler's JSON over `steps` steps, or over those of them that lack no
    kernels; None where no kernel ran. So many `leading` ones were traced before those: the first
    may begin on a device that a step before would have kept at work.

    Raises:
        IncompleteTrace: the profiler lost kernels of too many steps.
        ValueError: it is no such trace.
    """
    traced = _events(text)
    whole = whole_steps(traced, steps + leading, leading=leading)
    events, left = whole.events, whole.steps
    work = [each for each in events if each.get("cat") in _WORK]
    kernels = [each for each in work if each["cat"] == "kernel"]
    if not kernels:
        return None
    copying = [each for each in events if each.get("cat") in _COPIES]
    last = max(_interval(each)[1] for each in (*work, *copying))
    span = (_begin(events) if whole.begin is None else whole.begin, last)
    busy, moved = union(map(_interval, work)), union(map(_interval, copying))
    seconds = span[1] - span[0]
    to_device = union(
        _interval(each) for each in copying if _way(str(each["name"]))[0] == TO_DEVICE
    )
    exposed = (total(to_device) - total(intersection(to_device, busy))) / seconds
    at_work = float(work[0]["ts"]) if whole.begin is None else whole.begin
    syncs = [each for each in _syncs(events) if at_work < each.end < last]
    return Trace(
        steps=left,
        seconds=seconds * _MICROSECONDS,
        busy_share=total(busy) / seconds,
        kernels=len(kernels),
        kernel_seconds=fmean(each["dur"] for each in kernels) * _MICROSECONDS,
        copies=_copies(copying),
        exposed_copy_share=exposed,
        other_copy_share=(total(moved) - total(intersection(moved, busy))) / seconds - exposed,
        hidden_share=_hidden(to_device, busy),
        idle=_idle(events, gaps(union([*busy, *moved]), span), syncs, seconds, _launched(traced)),
        syncs_per_step=sum(not each.for_copy for each in syncs) / max(left, 1),
        gpus=len({each.get("args", {}).get("device") for each in kernels}),
    )


def _events(text: str | bytes) -> list[Mapping[str, Any]]:
    """What a trace says took time, in the order in which it began."""
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
        raise ValueError("a profiler's trace has a list of traceEvents")
    events = [each for each in found["traceEvents"] if each.get("ph") == "X" and "dur" in each]
    return sorted(events, key=lambda each: float(each["ts"]))


def _begin(events: Sequence[Mapping[str, Any]]) -> float:
    known = (*_HOST, *_WORK, *_COPIES)
    return next(float(each["ts"]) for each in events if each.get("cat") in known)


def _interval(event: Mapping[str, Any]) -> Interval:
    begin = float(event["ts"])
    return begin, begin + float(event["dur"])


def _way(name: str) -> tuple[str, str]:
    """Direction of a copy, and the kind of the host's memory."""
    match = _COPY_NAME.match(name)
    if match is None:
        return "", ""
    kinds = {match[2].lower(), match[3].lower()} & {PAGEABLE, PINNED}
    return match[1], next(iter(kinds), "")


def _copies(events: Sequence[Mapping[str, Any]]) -> tuple[Copies, ...]:
    by_way: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for event in events:
        by_way.setdefault(_way(str(event["name"])), []).append(event)
    return tuple(
        Copies(
            direction=direction,
            memory=memory,
            count=len(those),
            bytes=sum(map(_size, those)),
            seconds=sum(float(each["dur"]) for each in those) * _MICROSECONDS,
            largest_bytes=max(map(_size, those)),
            bytes_per_second=_rate([each for each in those if _size(each) >= NOTABLE_BYTES]),
        )
        for (direction, memory), those in sorted(by_way.items())
    )


def _rate(events: Sequence[Mapping[str, Any]]) -> float | None:
    seconds = sum(float(each["dur"]) for each in events) * _MICROSECONDS
    return sum(map(_size, events)) / seconds if seconds else None


def _size(event: Mapping[str, Any]) -> int:
    return int(event.get("args", {}).get("bytes", 0))


def _hidden(copies: Sequence[Interval], busy: Sequence[Interval]) -> float | None:
    return total(intersection(copies, busy)) / total(copies) if copies else None


def _syncs(events: Iterable[Mapping[str, Any]]) -> list[_Sync]:
    """The host's waits, each by what its thread had last given the device to do: copies to it of a
    batch's size, with nothing else among them, or not. It waits in a copy from pageable memory too,
    non-blocking or not: the driver stages that; and in a copy to such memory (`.cpu()`), where
    the driver returns behind it: a synchronise that follows then finds nothing to wait for.
    """
    events = list(events)
    copies = {correlation(each): each for each in events if each.get("cat") in _COPIES}
    ways = {which: _way(str(copy["name"])) for which, copy in copies.items()}
    to_device = {which: _size(copies[which]) for which, way in ways.items() if way[0] == TO_DEVICE}
    copied: dict[Any, int] = {}  # bytes, by thread
    over: set[Any] = set()  # threads whose last copy was back, and has been waited for
    found = []
    for event in events:
        if event.get("cat") not in RUNTIME:
            continue
        name, thread, which = str(event["name"]), event.get("tid"), correlation(event)
        if _SUBMITS.match(name):
            copied[thread] = copied.get(thread, 0) + to_device[which] if which in to_device else 0
            over.discard(thread)
        begin, end = _interval(event)
        if ways.get(which) == (TO_HOST, PAGEABLE) and end > _interval(copies[which])[1]:
            over.add(thread)
            found.append(_Sync(begin=begin, end=end, for_copy=False))
            continue
        staged = ways.get(which) == (TO_DEVICE, PAGEABLE) and end - begin > _SKEW_MICROSECONDS
        if staged:  # until the device has it to copy
            end = min(end, _interval(copies[which])[0] - 1)
        if staged or (_SYNCHRONISES.match(name) and thread not in over):
            for_copy = copied.get(thread, 0) >= NOTABLE_BYTES
            found.append(_Sync(begin=begin, end=end, for_copy=for_copy))
    return found


def _idle(
    events: Sequence[Mapping[str, Any]],
    idle: Sequence[Interval],
    syncs: Sequence[_Sync],
    seconds: float,
    launched: Mapping[Any, float],
) -> dict[str, float]:
    """The share of each cause in `idle`, the intervals in which the device did nothing. What it
    worked at may have been launched before all of these `events`.
    """
    loading = union(_interval(each) for each in events if each["name"].startswith(_LOADER))
    begun = {
        float(each["ts"]): launched.get(correlation(each))
        for each in events
        if each.get("cat") in (*_WORK, *_COPIES)
    }
    shares = dict.fromkeys((DATA, COPY, SYNC, LAUNCH, OTHER), 0.0)
    syncs = sorted(syncs, key=lambda each: each.end)
    ends = [each.end for each in syncs]
    for gap in idle:
        waited = total(intersection([gap], loading))
        shares[DATA] += waited / seconds
        first = bisect_left(ends, gap[0] - _SKEW_MICROSECONDS)
        ended = syncs[first : bisect_left(ends, gap[1])]
        shares[_cause(gap, ended, begun.get(gap[1]))] += (gap[1] - gap[0] - waited) / seconds
    return shares


def _launched(events: Iterable[Mapping[str, Any]]) -> dict[Any, float]:
    """When the host was through with each launch."""
    return {correlation(each): _interval(each)[1] for each in events if each.get("cat") in RUNTIME}


def _cause(gap: Interval, ended: Sequence[_Sync], launched: float | None) -> str:
    """Why the device was idle in `gap`, at whose end work begins that was `launched` then; those
    waits are given that `ended` as it began or within it.
    """
    if launched is not None and launched <= gap[0]:
        return OTHER
    begun = [each for each in ended if each.begin <= gap[0] + _SKEW_MICROSECONDS]
    if not begun:
        return LAUNCH
    return COPY if min(begun, key=lambda each: each.begin).for_copy else SYNC
