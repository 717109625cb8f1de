"""Processor time of the training process and of those that it has started, and what they read from
storage, as the system counts it.
"""

import os
import re
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Spent(TypedDict):
    """The fields of a Window that say what the processors and the storage did."""

    cpu_seconds: float
    worker_cpu_seconds: float
    delayed_seconds: float
    stolen_seconds: float
    others_seconds: float | None
    read_bytes: int | None
    page_faults: int
    threads: int


class Processor:
    """Processor time spent and waited for since it was last asked, and what was read from storage,
    by this process and those that it has started: workers of any loader, living or gone.

    Args:
        threads: says how many of them compute.
    """

    def __init__(self, threads: Callable[[], int]) -> None:
        self._threads = threads
        started = _started()
        self._own, self._children = time.process_time(), _children_seconds(started)
        self._read = _read_bytes(started)
        self._delayed, self._faults = _delayed_seconds(), _page_faults()
        self._busy, self._stolen = _busy_and_stolen_seconds()

    def spent(self) -> Spent:
        """What was spent since the last time."""
        own, delayed, faults = time.process_time(), _delayed_seconds(), _page_faults()
        started = _started()
        children, read = _children_seconds(started), self._read_since(started)
        busy, stolen = _busy_and_stolen_seconds()
        of_workers = max(0.0, children - self._children)
        of_run, of_all = own - self._own + of_workers, busy - self._busy
        spent: Spent = {
            "cpu_seconds": own - self._own,
            "delayed_seconds": max(0.0, delayed - self._delayed),
            "worker_cpu_seconds": of_workers,
            "stolen_seconds": max(0.0, stolen - self._stolen) * _share(of_run, of_all),
            "others_seconds": max(0.0, of_all - of_run) if busy else None,
            "read_bytes": read,
            "page_faults": faults - self._faults,
            "threads": self._threads(),
        }
        self._own, self._delayed, self._children = own, delayed, children
        self._faults = faults
        self._busy, self._stolen = busy, stolen
        return spent

    def _read_since(self, started: Sequence[int]) -> int | None:
        """What was read from storage since the last time; what a process that is ending has read is
        missing for a moment.
        """
        read, before = _read_bytes(started), self._read
        if read is None or before is None:
            self._read = read
            return None
        self._read = max(read, before)
        return self._read - before


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


def _share(own: float, all_together: float) -> float:
    """How much of what all programs used is this one's: what is stolen meets them alike."""
    return min(1.0, own / all_together) if all_together > 0 else 1.0


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
    """Time that this process's threads were ready to run and waited for a processor (Linux
    schedstat).
    """
    total = 0
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return 0.0
    for thread in threads:
        fields = read_text(f"/proc/self/task/{thread}/schedstat").split()
        total += int(fields[1]) if len(fields) > 1 else 0
    return total / 1e9
