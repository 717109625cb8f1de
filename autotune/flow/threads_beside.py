"""Threads of the program's own that work beside its training, at a pace of their own."""

import os
import re

from autotune.profiling.profile import Profile
from autotune.workload.found import BESIDE
from autotune.workload.program.imported import files_that_run
from autotune.workload.program.target import OBJECTS, Target

# By which a thread waits for what it hands over to be taken.
_HANDS_OVER = re.compile(r"Queue\(")


def thread_beside(target: Target, profiled: Profile) -> str:
    """The function and line of such a thread; "" where none computes, where it draws from the
    training loader, or where the program has a queue: what is handed over by one is as much in each
    step, however fast those are.
    """
    line = next((each for each in profiled.lines if each.phase == BESIDE), None)
    loader = profiled.seen.loader
    if line is None or target.kind == OBJECTS or (loader is not None and loader.threaded):
        return ""
    texts = (text for _, text in files_that_run(target, profiled.seen.modules))
    if any(map(_HANDS_OVER.search, texts)):
        return ""
    return f"{line.function}, {os.path.basename(line.path)}:{line.line}"
