"""Which of the program's own functions a step waits for, by looking at its stack every so often;
which compute beside it; and what a forward pass runs of them between torch's operations.
"""

import os
import sys
import tempfile
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from autotune.workload import seams
from autotune.workload.found import INSIDE, MARK, Between, BusyLine, Look
from autotune.workload.live import Live
from autotune.workload.looks.threads import ThreadsBeside
from autotune.workload.looks.watch import Watch
from autotune.workload.places import is_users, outwards
from autotune.workload.program.framework import framework_at
from autotune.workload.system.quiet import quietly

EVERY_SECONDS = 0.002
# Python lets another thread look after this long, or wherever it lets go of its lock by itself (it
# reads, it unpacks): by its own 5 ms what is seen would mostly be those places.
SWITCH_SECONDS = 1e-4
FEWEST_LOOKS = 20  # with fewer, a share of a half is told from one of a fifth by luck
LEAST_SHARE = 0.02
_SEAMS = os.path.dirname(seams.__file__)
_LOADER = os.path.join(_SEAMS, "loader.py")
_OF_CUDA = os.path.dirname(torch.cuda.__file__)
_OF_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_STOP_SECONDS = 5.0
At = tuple[FrameType, int]  # a frame, and the line that it is at
_OF_A_LOOP = {"backward", "step", "zero_grad", "manual_backward"}


class Sampling(Watch):
    """Looks at the thread that trains from a thread beside it. Each look counts for the time since
    the one before: what holds Python's lock all along (`gc.collect()`) is seen once, as it ends.

    `looks` is how many there were, over so many `seconds`; `inside` are those at a forward pass.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        self._on = threading.Lock()  # held until it ends
        self.looks, self.seconds, self.inside = 0, 0.0, list[Look]()
        self._since = 0.0  # the look before
        self._seen = defaultdict[tuple[str, CodeType], float](float)
        self._lines = defaultdict[tuple[str, CodeType], dict[int, float]](dict)
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._beside: ThreadsBeside | None = None
        self._switch_seconds = sys.getswitchinterval()

    def begin(self) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self._on.acquire()
        self._thread.start()

    def end(self) -> tuple[BusyLine, ...]:
        """Those that took most first, none where there was too little to see; threads beside."""
        self._on.release()
        self._thread.join(_STOP_SECONDS)
        sys.setswitchinterval(self._switch_seconds)
        beside = self._beside.busy() if self._beside else ()
        if self.looks < FEWEST_LOOKS:
            return beside
        waited_for = tuple(
            self._busy(phase, code, seconds)
            for (phase, code), seconds in _most_first(self._seen)
            if seconds >= LEAST_SHARE * self.seconds
        )
        return (*waited_for, *beside)

    def _busy(self, phase: str, code: CodeType, seconds: float) -> BusyLine:
        lines = _most_first(self._lines[phase, code])
        return BusyLine(
            phase=phase,
            path=os.path.abspath(code.co_filename),
            line=lines[0][0],
            function=code.co_name,
            share=seconds / self.seconds,
            lines=tuple(
                (line, spent / self.seconds)
                for line, spent in lines
                if spent >= LEAST_SHARE * self.seconds
            ),
        )

    def _look_on(self) -> None:
        beside = self._beside = ThreadsBeside(self._live.thread)
        before = time.perf_counter()
        is_open = self._live.clock.is_open
        while not self._on.acquire(timeout=EVERY_SECONDS):
            inside, frames = is_open("forward"), sys._current_frames()
            stack = _stack(frames.get(self._live.thread))  # at once: it may go on meanwhile
            if inside != is_open("forward"):  # it has: the next look counts for this one
                continue
            now = time.perf_counter()
            self._since, before = now - before, now
            if stack and not self._live.pace.is_left_out:
                self.looks += 1
                self.seconds += self._since
                self._note(stack, inside=inside)
            beside.note(frames)

    def _note(self, stack: Sequence[At], *, inside: bool) -> None:
        innermost, _ = stack[0]
        if _waits_for_device(innermost):
            return
        if inside:
            self._note_inside(stack)
            return
        users: At | None = None
        for frame, line in stack:
            path = frame.f_code.co_filename
            if path.startswith(_SEAMS):
                if path == _LOADER and users is not None:
                    self._count("data", *users)
                return
            if users is None and framework_at(path):
                return  # the user's line that is next has a framework train
            users = users or ((frame, line) if is_users(path) else None)
        if users is not None:
            self._count("forward" if _is_of_model(users[0]) else "other", *users)

    def _note_inside(self, stack: Sequence[At]) -> None:
        """In a forward pass: what is in torch's own Python is about to start an operation."""
        moment = time.perf_counter()
        innermost, _ = stack[0]
        if innermost.f_code.co_filename.startswith(_OF_TORCH):
            return
        for frame, line in stack:
            code = frame.f_code
            if code.co_filename.startswith(_SEAMS):
                return
            if is_users(code.co_filename):
                self._count(INSIDE, frame, line)
                path = os.path.abspath(code.co_filename)
                look = Look(moment=moment, path=path, line=line, function=code.co_name)
                self.inside.append(look)
                return

    def _count(self, phase: str, frame: FrameType, line: int) -> None:
        key = phase, frame.f_code
        self._seen[key] += self._since
        lines = self._lines[key]
        lines[line] = lines.get(line, 0.0) + self._since


def _most_first(seconds: Mapping[Any, float]) -> list[tuple[Any, float]]:
    return sorted(seconds.items(), key=lambda each: -each[1])


def _waits_for_device(frame: FrameType) -> bool:
    """Whether it is `torch.cuda.synchronize`, or that of an event or a stream."""
    code = frame.f_code
    return code.co_name == "synchronize" and code.co_filename.startswith(_OF_CUDA)


def _is_of_model(frame: FrameType) -> bool:
    """Whether it runs a method of a module that is no training loop."""
    code = frame.f_code
    owner = frame.f_globals.get(code.co_qualname.partition(".")[0])
    is_module = isinstance(owner, type) and issubclass(owner, torch.nn.Module)
    return is_module and not _OF_A_LOOP & set(code.co_names)


def _stack(frame: FrameType | None) -> list[At]:
    """From the innermost frame outwards, each with the line that it is at; its function's first,
    where what it is at belongs to no line.
    """
    return [(each, each.f_lineno or each.f_code.co_firstlineno) for each in outwards(frame)]


class LookingBetween(Watch):
    """Looks at the stack while torch's profiler notes when its operations run.

    A look alone cannot tell the two apart: where a line of the program's own calls an operation,
    there is no frame of torch's.
    """

    @quietly()
    def __init__(self, live: Live) -> None:
        self._sampling = Sampling(live)
        self._profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self._marked = 0.0

    @quietly()
    def begin(self) -> None:
        self._profiler.start()
        for _ in range(2):  # the first takes longer
            self._marked = time.perf_counter()
            with torch.profiler.record_function(MARK):
                pass
        self._sampling.begin()

    @quietly()
    def end(self) -> Between:
        self._sampling.end()
        self._profiler.stop()
        return Between(
            trace=packed(self._profiler),
            marked=self._marked,
            looks=self._sampling.looks,
            inside=tuple(self._sampling.inside),
        )


def packed(profiler: torch.profiler.profile) -> bytes:
    """Its trace: JSON, compressed by zlib."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        return zlib.compress(path.read_bytes(), 1)
