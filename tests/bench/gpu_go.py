"""One go of the GPU's bench: as many measurements as its time holds, each ended when that is over.

What a measurement has started is gone when it ends, however it ends: processes that were orphaned
are adopted by this one, so that they can be found.
"""

import ctypes
import json
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NoReturn

import psutil

from autotune.machine import detect
from tests.bench.gpu_unit import Setting, Unit

# A measurement that takes so many times its estimate is ended, so that the others have their turn;
# one that failed before comes last, and has all that is left.
MOST_TIMES = 2.0
TIMES_KILLED, LONGEST_DYING_SECONDS = 3, 5.0
_PR_SET_CHILD_SUBREAPER = 36


class OutOfTime(Exception):
    """A measurement was not over when its time was."""


def measure(units: tuple[Unit, ...], setting: Setting, out: Path, seconds: float) -> list[str]:
    """Make each measurement that has no answer in `out` yet, while it fits in `seconds`; the names
    of those that are left.
    """
    ends, left = time.monotonic() + seconds, []
    setting = setting.within(setting.work, out)
    out.mkdir(parents=True, exist_ok=True)
    wanted = [each for each in units if setting.fresh or setting.measured(each.name) is None]
    for unit in sorted(wanted, key=lambda unit: setting.has_failed(unit.name)):
        remaining = ends - time.monotonic()
        too_long = unit.seconds > remaining and not setting.rehearse
        if too_long or any(setting.measured(name) is None for name in unit.needs):
            left.append(unit.name)
            continue
        say(f"{unit.name} (about {unit.seconds:.0f} s)")
        whole = setting.rehearse or setting.has_failed(unit.name)
        limit = remaining if whole else min(remaining, MOST_TIMES * unit.seconds)
        _write(setting.path(unit.name), _document(unit, setting, limit))
    return left


def _document(unit: Unit, setting: Setting, limit_seconds: float) -> dict[str, Any]:
    """What `unit` gave, or how it failed: that is a result too, and does not end the others."""
    document: dict[str, Any] = {"part": unit.part, "name": unit.name, "machine": machine()}
    if setting.rehearse:
        document["rehearsal"] = True
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{unit.name}-", ignore_cleanup_errors=True) as folder:
        try:
            with limited(limit_seconds):
                document["measured"] = unit.measure(setting.within(Path(folder), setting.results))
        except OutOfTime:
            document["failed"] = f"out of time: not over after {limit_seconds:.0f} s"
            document["said"] = traceback.format_exc()[-4000:]
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are measured
            said = getattr(error, "stderr", None) or getattr(error, "stdout", None)
            document["failed"] = f"{type(error).__name__}: {error}"
            document["said"] = str(said or traceback.format_exc())[-4000:]
    document["seconds"] = time.monotonic() - began
    return document


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ends what runs longer than `seconds`, and at the end all processes that it has started.

    Raises:
        OutOfTime: it was ended.
    """

    def end(*_: object) -> NoReturn:
        _kill_all_but(before)
        raise OutOfTime

    _adopt(True)
    resource_tracker.ensure_running()  # multiprocessing's own, which lives as long as this process
    before = _descendants()
    previous = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        _kill_all_but(before)
        _adopt(False)


def _adopt(orphans: bool) -> None:
    """Whether processes whose parents have ended are this one's."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(orphans))


def _descendants() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _kill_all_but(spared: set[psutil.Process]) -> None:
    """Several times: one that is killed may have just started another."""
    for _ in range(TIMES_KILLED):
        started = _descendants() - spared
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(started, timeout=LONGEST_DYING_SECONDS)


def machine() -> dict[str, Any]:
    """The machine, as autotune sees it, and what torch says of the device."""
    import torch

    facts: dict[str, Any] = {**asdict(detect()), "torch_cuda": torch.version.cuda}
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        facts["multiprocessors"] = properties.multi_processor_count
        facts["cudnn_version"] = torch.backends.cudnn.version()
    return facts


def _write(path: Path, document: dict[str, Any]) -> None:
    """Whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(path)
    if "failed" in document:
        say(f"  failed: {document['failed']}\n{document['said']}")


def say(words: str) -> None:
    """Tell whoever watches."""
    print(words, file=sys.stderr, flush=True)
