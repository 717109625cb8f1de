"""Threads of the program's own that compute beside the one that trains."""

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from types import CodeType, FrameType

from autotune.workload.found import BESIDE, BusyLine
from autotune.workload.places import is_users, outwards
from autotune.workload.system.processor import TICKS_PER_SECOND, read_text

# Less of a core than this is bookkeeping: a progress bar, a logger, a thread that mostly waits.
LEAST_SHARE = 0.25


class ThreadsBeside:
    """What Python threads other than `training` and the one that looks spend, and where.

    Made where looking begins; `note` is given the threads' frames every so often.
    """

    def __init__(self, training: int) -> None:
        self._not_meant = {training, threading.get_ident()}
        self._began = time.monotonic()
        self._before = self._spent()
        self._seen: dict[int, Counter[tuple[CodeType, int]]] = {}  # of each, by its native id

    def note(self, frames: Mapping[int, FrameType]) -> None:
        """Where each of them is now, of the program's own lines the innermost."""
        natives = {each.ident: each.native_id for each in threading.enumerate()}
        for thread, innermost in frames.items():
            native = natives.get(thread)
            if native is None or thread in self._not_meant:
                continue
            own = (each for each in outwards(innermost) if is_users(each.f_code.co_filename))
            frame = next(own, None)
            if frame is not None:
                seen = self._seen.setdefault(native, Counter())
                seen[frame.f_code, frame.f_lineno] += 1

    def busy(self) -> tuple[BusyLine, ...]:
        """What they compute together, with the line where the busiest was met most often; nothing
        where that is little. What one spent that has ended is not known.
        """
        wall, spent = time.monotonic() - self._began, self._spent()
        shares = {
            thread: (spent[thread] - self._before.get(thread, 0.0)) / wall
            for thread in self._seen.keys() & spent.keys()
        }
        if sum(shares.values()) < LEAST_SHARE:
            return ()
        (code, line), _ = self._seen[max(shares, key=shares.__getitem__)].most_common(1)[0]
        return (
            BusyLine(
                phase=BESIDE,
                path=os.path.abspath(code.co_filename),
                line=line,
                function=code.co_name,
                share=sum(shares.values()),
            ),
        )

    def _spent(self) -> dict[int, float]:
        """Processor seconds of each thread that Python knows, by its native id: another thread may
        be given the other id of one that has ended.
        """
        return {
            each.native_id: _seconds(each.native_id)
            for each in threading.enumerate()
            if each.native_id is not None
        }


def _seconds(native: int) -> float:
    fields = read_text(f"/proc/self/task/{native}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS_PER_SECOND
