"""Kernels that the profiler has lost, and the steps of its trace that have all of them.

CUPTI of CUDA 12.6 Update 2 to 13.0 gives the first kernels of a session no time, or one before it,
and Kineto leaves those out without a word (pytorch#192021): their launches are in the trace.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

Event = Mapping[str, Any]

RUNTIME = ("cuda_runtime", "cuda_driver")
ON_DEVICE = ("kernel", "gpu_memset", "gpu_memcpy")
# What makes a kernel. Memory is often set without one: in public traces, most of `cudaMemsetAsync`.
_LAUNCHES = re.compile(r"(cuda|cu)(LaunchKernel|LaunchCooperativeKernel|GraphLaunch)")
_CAPTURES = {"cudaStreamBeginCapture": 1, "cudaStreamEndCapture": -1}
# So many of the launches may lack their kernel, and at least so many of the steps must be left.
TOLERATED = 0.02
LEAST_LEFT = 0.5


class IncompleteTrace(ValueError):
    """The profiler lost too many kernels; the message says how many."""


def correlation(event: Event) -> Any:
    """What a launch has in common with the work that it makes."""
    return event.get("args", {}).get("correlation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The events of so many steps, `begin` on the trace's clock; None at the first of them."""

    events: Sequence[Event]
    steps: int
    begin: float | None = None


def whole_steps(events: Sequence[Event], steps: int, *, leading: int = 0) -> Whole:
    """Of so many traced steps those from which on no kernels are lost, without the `leading` ones
    in any case; they are taken to launch as much each. Events have a begin, by which they are in
    order, and a duration.

    Raises:
        IncompleteTrace: kernels are lost in too many steps.
    """
    launches = _launches(events)
    known = {correlation(each) for each in events if each.get("cat") in ON_DEVICE}
    lost = [which not in known for which in launches]
    for dropped in range(leading, steps - ceil(LEAST_LEFT * steps) + 1):
        cut = round(len(launches) * dropped / max(steps, 1))
        if sum(lost[cut:]) <= TOLERATED * len(lost[cut:]):
            begin = _through_with(events, launches, cut) if cut else None
            return Whole(events=_from(events, begin), steps=steps - dropped, begin=begin)
    raise IncompleteTrace(f"the profiler lost {sum(lost)} of {len(lost)} kernels")


def _launches(events: Iterable[Event]) -> list[Any]:
    """What makes kernels, in its order; what a graph only captures makes none."""
    found, capturing = [], 0
    for each in events:
        if each.get("cat") not in RUNTIME:
            continue
        name = str(each["name"])
        capturing += _CAPTURES.get(name.partition("_")[0], 0)
        if not capturing and _LAUNCHES.match(name):
            found.append(correlation(each))
    return found


def _through_with(events: Sequence[Event], launches: Sequence[Any], cut: int) -> float:
    """The moment at which the device was through with what was launched before `cut`; where the
    last of that is lost, that at which it began with what follows.
    """
    before, behind = set(launches[:cut]), set(launches[cut:])
    on_device = [each for each in events if each.get("cat") in ON_DEVICE]
    begin = min(float(each["ts"]) for each in on_device if correlation(each) in behind)
    if any(correlation(each) == launches[cut - 1] for each in on_device):
        return min(begin, max(_end(each) for each in on_device if correlation(each) in before))
    return begin


def _from(events: Sequence[Event], begin: float | None) -> Sequence[Event]:
    """What the device had not begun, or the host not ended, before `begin`."""
    if begin is None:
        return events
    return [
        each
        for each in events
        if (float(each["ts"]) if each.get("cat") in ON_DEVICE else _end(each)) >= begin
    ]


def _end(event: Event) -> float:
    return float(event["ts"]) + float(event["dur"])
