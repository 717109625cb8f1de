"""Processor time of the training process and of those that it has started, and what they read from
storage, as the system counts it; and whether the processor takes denormal numbers for zero.
"""

import os
import re
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class _Counts(NamedTuple):
    """What the system has counted so far, in seconds, bytes and faults."""

    own: float
    children: float
    read: int | None
    delayed: float
    faults: int
    busy: float
    stolen: float

    @classmethod
    def now(cls) -> "_Counts":
        own, started = time.process_time(), _started()
        of_started = _children_seconds(started), _read_bytes(started)
        return cls(
            own, *of_started, _delayed_seconds(), _page_faults(), *_busy_and_stolen_seconds()
        )


class Processor:
    """Processor time spent and waited for since it was last asked, and what was read from storage,
    by this process and those that it has started: workers of any loader, living or gone.
    """

    def __init__(self, threads: Callable[[], int]) -> None:
        self._threads = threads  # how many of them compute
        self._before = _Counts.now()

    def spent(self) -> dict[str, Any]:
        """What was spent since the last time, by the fields of a Window. What a process that is
        ending has read is missing for a moment.
        """
        before, now, read = self._before, _Counts.now(), None
        if now.read is not None and before.read is not None:
            latest = max(now.read, before.read)
            now, read = now._replace(read=latest), latest - before.read
        self._before = now
        of_workers = max(0.0, now.children - before.children)
        of_run, of_all = now.own - before.own + of_workers, now.busy - before.busy
        share = min(1.0, of_run / of_all) if of_all > 0 else 1.0  # what is stolen meets all alike
        return {
            "cpu_seconds": now.own - before.own,
            "delayed_seconds": max(0.0, now.delayed - before.delayed),
            "worker_cpu_seconds": of_workers,
            "stolen_seconds": max(0.0, now.stolen - before.stolen) * share,
            "others_seconds": max(0.0, of_all - of_run) if now.busy else None,
            "read_bytes": read,
            "page_faults": now.faults - before.faults,
            "threads": self._threads(),
        }


def flushes_denormals() -> bool:
    """Whether this thread takes denormal numbers for zero (`torch.set_flush_denormal`)."""
    return sys.float_info.min / 2 == 0.0


def read_text(path: str) -> str:
    """The file at `path`; "" where it cannot be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _started() -> list[int]:
    """The processes that this one has started, and those that they have."""
    found, waiting = list[int](), _children_of(os.getpid())
    while waiting:
        found.append(waiting.pop())
        waiting += _children_of(found[-1])
    return found


def _children_seconds(started: Sequence[int]) -> float:
    """What these processes have used: the ones that have ended are in their parent's account."""
    ended, ticks = os.times(), 0
    for pid in started:
        fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ended.children_user + ended.children_system + ticks / TICKS_PER_SECOND


def _read_bytes(started: Sequence[int]) -> int | None:
    """What this process and those that it has `started` have read from storage, and not from
    memory: the ones that have ended are in their parent's account. None where that is not known
    (proc(5), /proc/pid/io).
    """
    total = 0
    for pid in (os.getpid(), *started):
        try:
            text = Path(f"/proc/{pid}/io").read_text()
        except (FileNotFoundError, ProcessLookupError):
            if pid in started:
                continue
            return None
        except OSError:
            return None
        found = re.search(r"^read_bytes: (\d+)", text, re.MULTILINE)
        total += int(found[1]) if found else 0
    return total


def _children_of(pid: int) -> list[int]:
    """The processes that any thread of `pid` has started, and that were not waited for yet."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    files = (read_text(f"/proc/{pid}/task/{thread}/children") for thread in threads)
    return [int(child) for text in files for child in text.split()]


def _page_faults() -> int:
    """How often this process was given a page of memory, without a disk (getrusage(2))."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _busy_and_stolen_seconds() -> tuple[float, float]:
    """What the processors that this process may run on were used for, and what a virtual machine's
    host took of them while they were wanted; no run-queue shows that (proc(5), /proc/stat).
    """
    usable = {f"cpu{each}" for each in os.sched_getaffinity(0)}
    busy = stolen = 0
    for line in read_text("/proc/stat").splitlines():
        name, *fields = line.split()
        if name in usable and len(fields) > 7:
            user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
    return busy / TICKS_PER_SECOND, stolen / TICKS_PER_SECOND


def _delayed_seconds() -> float:
    """Time that this process's threads were ready to run and got no processor (Linux schedstat)."""
    total = 0
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return 0.0
    for thread in threads:
        fields = read_text(f"/proc/self/task/{thread}/schedstat").split()
        total += int(fields[1]) if len(fields) > 1 else 0
    return total / 1e9
