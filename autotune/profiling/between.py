"""Which looks at a forward pass fell between two of torch's operations: on Python or NumPy."""

import json
import zlib
from bisect import bisect_right
from collections import Counter

from autotune.profiling.intervals import Interval, gaps, union
from autotune.workload.found import INSIDE, MARK, Between, BusyLine

# Between operations that lie nearer, Python starts the next one (5 to 20 us, with torch's own
# modules around it), and another thread has hardly had the time to look (`SWITCH_SECONDS`).
FAR_SECONDS = 2e-4


def own_lines(found: Between) -> tuple[BusyLine, ...]:
    """The program's own functions that were seen far from any operation, those that take most
    first, each with its share of all looks.
    """
    far = _far_apart(found)
    begins = [begin for begin, _ in far]
    seen: dict[tuple[str, str], Counter[int]] = {}
    for look in found.inside:
        at = bisect_right(begins, look.moment) - 1
        if at >= 0 and look.moment < far[at][1]:
            seen.setdefault((look.path, look.function), Counter())[look.line] += 1
    lines = [_busy(*key, counts, found.looks) for key, counts in seen.items()]
    return tuple(sorted(lines, key=lambda each: -each.share))


def _busy(path: str, function: str, counts: Counter[int], looks: int) -> BusyLine:
    shares = tuple((line, count / looks) for line, count in counts.most_common())
    return BusyLine(
        phase=INSIDE,
        path=path,
        line=shares[0][0],
        function=function,
        share=counts.total() / looks,
        lines=shares,
    )


def _far_apart(found: Between) -> list[Interval]:
    """The stretches without an operation, by the host's clock, in seconds."""
    events = [
        each for each in json.loads(zlib.decompress(found.trace))["traceEvents"] if "dur" in each
    ]
    marked = max(float(each["ts"]) for each in events if each["name"] == MARK)

    def seconds(microseconds: float) -> float:
        return found.marked + (microseconds - marked) * 1e-6

    at_work = union(
        (seconds(begin := float(each["ts"])), seconds(begin + float(each["dur"])))
        for each in events
        if each.get("cat") == "cpu_op"
    )
    last = max((look.moment for look in found.inside), default=found.marked)
    within = gaps(at_work, (found.marked, max(last, found.marked) + FAR_SECONDS))
    return [each for each in within if each[1] - each[0] > FAR_SECONDS]
