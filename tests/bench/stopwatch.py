"""A stopwatch that knows nothing of autotune: whole fresh processes, timed from outside by what
they print.

The program is run as anyone would run it. The time of each line that it prints is taken in this
process, and how far its training is by then is read from the line. In the timed process `autotune`
cannot be imported.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev

# Two-sided 95 % quantiles of Student's t, by degrees of freedom; 2.1 or less beyond them.
_STUDENT_T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_NO_AUTOTUNE = "raise ImportError('the stopwatch times programs without autotune')\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """How the lines of a program tell how far its training is.

    Attributes:
        pattern: of a progress line, with a group `epoch`, a group `step` (both from 1), or both.
        batch: samples in a step.
        epoch_samples: samples in an epoch; 0 where there are none.
        pause: how a line begins before which the program did not train (it validated).
        warm_samples: what is left out of the rate, so that it is that of steady training.
    """

    pattern: str
    batch: int
    epoch_samples: int = 0
    pause: str = "validation"
    warm_samples: int = 0

    def samples(self, line: str) -> int | None:
        """Samples trained on when `line` was printed; None where it does not tell."""
        found = re.match(self.pattern, line)
        if found is None:
            return None
        groups = found.groupdict()
        if "step" not in groups:
            return int(groups["epoch"]) * self.epoch_samples
        done = int(groups["step"]) * self.batch
        if "epoch" not in groups:
            return done
        return (int(groups["epoch"]) - 1) * self.epoch_samples + min(done, self.epoch_samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One whole run: its wall in seconds, (seconds since its start, samples trained on), and the
    processors that it used, that everything else used meanwhile, and that the host of the virtual
    machine took.
    """

    wall_seconds: float
    own_cores: float
    other_cores: float
    stolen_cores: float
    marks: tuple[tuple[float, int], ...]

    def rate(self, warm_samples: int) -> float:
        """Samples per second of steady training, validation left out.

        Raises:
            ValueError: too little was trained after the warm-up.
        """
        stretches = [
            (after[1] - before[1], after[0] - before[0])
            for before, after in pairwise(self.marks)
            if before[1] >= warm_samples and after[1] > before[1]
        ]
        if not stretches:
            raise ValueError("the run was too short to be timed")
        return sum(samples for samples, _ in stretches) / sum(seconds for _, seconds in stretches)


def time_program(program: Path, arguments: Sequence[str], lines: Lines, empty: Path) -> Timing:
    """Run the script `program` to its end in a fresh process, in its own folder's parent; what lies
    in the folder `empty`, of the caller's, keeps autotune out.

    Raises:
        RuntimeError: the program failed; with the end of what it printed.
    """
    stand_in = empty / "autotune.py"
    stand_in.write_text(_NO_AUTOTUNE)
    marks: list[tuple[float, int]] = []
    printed: list[str] = []
    busy, own, stolen = _busy_seconds(), _children_seconds(), stolen_seconds()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-u", str(program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=program.parent.parent,
        env=finding(empty),
        start_new_session=True,
    )
    with ended(process):
        assert process.stdout is not None
        samples = 0
        for line in process.stdout:
            seconds = time.perf_counter() - began
            told = lines.samples(line)
            samples = samples if told is None else told
            if told is not None or line.startswith(lines.pause):
                marks.append((seconds, samples))
            printed.append(line)
        process.wait()
    wall_seconds = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"{program.name} failed:\n{''.join(printed[-15:])}")
    own = (_children_seconds() - own) / wall_seconds
    busy = (_busy_seconds() - busy) / wall_seconds
    return Timing(
        wall_seconds=wall_seconds,
        marks=tuple(marks),
        own_cores=own,
        other_cores=max(0.0, busy - own),
        stolen_cores=(stolen_seconds() - stolen) / wall_seconds,
    )


def finding(*folders: Path) -> dict[str, str]:
    """The environment of a process that finds packages in these, and in what PYTHONPATH has but for
    what has an autotune: packages that were brought along are the programs' too.
    """
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [each for each in given if each and not Path(each, "autotune").exists()]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), *others])}


def _busy_seconds() -> float:
    """Processor seconds that the whole machine has used since it was started."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def stolen_seconds() -> float:
    """Processor seconds that a virtual machine's host has taken since the machine was started."""
    return int(Path("/proc/stat").read_text().split()[8]) / os.sysconf("SC_CLK_TCK")


def _children_seconds() -> float:
    used = os.times()
    return used.children_user + used.children_system


@contextlib.contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """Whatever happens, Ctrl-C too, nothing is left of `process`, which leads its own group."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def mean_and_reach(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and half of its 95 % interval; None for that of a single value."""
    if len(values) < 2:
        return fmean(values), None
    quantile = _STUDENT_T[min(len(values) - 1, len(_STUDENT_T)) - 1]
    return fmean(values), quantile * stdev(values) / len(values) ** 0.5
