"""Processes that the program starts while it trains, and does not wait for: they have some of the
processors in some of its steps.
"""

import functools
import subprocess
from multiprocessing.process import BaseProcess
from typing import Any

from autotune.workload.live import Live
from autotune.workload.places import asking_place

_STARTS = ((subprocess.Popen, "__init__"), (BaseProcess, "start"))
_WAITS = ((subprocess.Popen, "wait"), (BaseProcess, "join"))


def install(live: Live) -> None:
    """Watch what starts processes, and what waits for them."""
    for kind, name in _STARTS:
        live.patch(kind, name, _noting(live, getattr(kind, name)))
    for kind, name in _WAITS:
        live.patch(kind, name, _forgetting(live, getattr(kind, name)))


def _noting(live: Live, original: Any) -> Any:
    @functools.wraps(original)
    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = original(self, *args, **kwargs)
        if live.pace.steps and not live.elsewhere and (place := asking_place()):
            live.processes[id(self)] = live.pace.steps, place
        return given

    return start


def _forgetting(live: Live, original: Any) -> Any:
    @functools.wraps(original)
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        step, _ = live.processes.get(id(self), (-1, None))
        if step == live.pace.steps:  # it is a part of that step
            del live.processes[id(self)]
        return original(self, *args, **kwargs)

    return wait
