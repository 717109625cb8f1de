"""How many times as fast a program is with the patch that its search handed back, by a stopwatch
that knows nothing of autotune: the steps of its optimizers.

    python -m tests.bench.patched RESULTS [--project FOLDER] [--start FOLDER] [--python PYTHON]
        [--pairs 2] [--rounds 8] [--window 2.0] [--warm 3.0] [--out FILE.tsv]

RESULTS is the folder with the search's `result.json` and `tuned.patch`. The program's project (what
the patch is of, where none is named) is copied twice, and one of the copies patched. Each pair
is a fresh process of either, both alive: while one trains for a window the other is stopped, with
its workers (SIGSTOP), so that a machine whose speed changes from minute to minute changes it for
both. A row for each of a pair, as in `reports/programs/steps_in_turns.tsv`: with and without the
gaps between steps that are far longer than others (an epoch's end, a validation).
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

OWN, PATCHED = "own", "patched"
COLUMNS = (
    "program",
    "pair",
    "source",
    "steps",
    "steps_per_second",
    "without_long_gaps",
    "long_gaps",
)
FEWEST_STEPS = 8  # of a window: it is longer where steps are
LONGEST_START = 180.0  # seconds to the first step
LONG_GAP, LEAST_GAP = 10, 0.25  # times the median, and seconds, that a gap between steps has
_STAMP = struct.Struct("d")
_COUNTER = '''"""Writes down when each optimizer has stepped, and keeps autotune out."""
import importlib.abc, importlib.machinery, os, struct, sys, time
sys.modules["autotune"] = None
_files = {}
def _stepped(optimizer, arguments, options):
    now, pid = time.monotonic(), os.getpid()
    if pid not in _files:
        try:
            _files[pid] = os.open(os.environ["STEPS"], os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            _files[pid] = None  # another process of the program trains
    if _files[pid] is not None:
        os.write(_files[pid], struct.pack("d", now))
class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch.optim.optimizer":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def execute_and_count(module):
            execute(module)
            module.register_optimizer_step_post_hook(_stepped)
        spec.loader.exec_module = execute_and_count
        return spec
sys.meta_path.insert(0, _Finder())
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is started, from where, with what environment."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


@dataclass(slots=True)
class Contestant:
    """A live process of a program, stopped while it is not its turn."""

    process: subprocess.Popen[bytes]
    steps: Path
    windows: list[list[float]] = field(default_factory=list)

    def stamps(self) -> list[float]:
        """When each step so far had ended, in seconds of the monotonic clock."""
        given = self.steps.read_bytes() if self.steps.exists() else b""
        return [each for (each,) in _STAMP.iter_unpack(given[: len(given) // 8 * 8])]

    def send(self, what: signal.Signals) -> None:
        """Signal the process and all that it has started."""
        os.killpg(self.process.pid, what)

    def warm_up(self, seconds: float) -> None:
        """Let it come to its training, and train for `seconds`.

        Raises:
            RuntimeError: it ended, or took no step for too long.
        """
        limit = time.monotonic() + LONGEST_START
        while not (done := self.stamps()) or done[-1] - done[0] < seconds:
            if self.process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"the program came to {len(done)} steps, and no further")
            time.sleep(0.05)
        self.send(signal.SIGSTOP)

    def turn(self, seconds: float) -> None:
        """Let it train for `seconds`, and for some steps, and keep when each of those had ended."""
        began = time.monotonic()
        self.send(signal.SIGCONT)
        while time.monotonic() - began < seconds or len(self._since(began)) <= FEWEST_STEPS:
            if self.process.poll() is not None or time.monotonic() - began > LONGEST_START:
                break
            time.sleep(0.02)
        if self.process.poll() is None:
            self.send(signal.SIGSTOP)
        self.windows.append(self._since(began))

    def _since(self, began: float) -> list[float]:
        return [each for each in self.stamps() if each >= began]


def programs(results: Path, project: Path, start: Path, python: str, work: Path) -> list[Program]:
    """The program of a search as it is, and patched, each in a copy of its project under `work`.

    Raises:
        subprocess.CalledProcessError: the patch does not apply.
    """
    target = _target(results)
    counter = work / "counter"
    counter.mkdir()
    (counter / "sitecustomize.py").write_text(_COUNTER)
    found = []
    for source in (OWN, PATCHED):
        copy = work / source
        left_out = shutil.ignore_patterns("autotune-out", "__pycache__", ".git", ".venv")
        shutil.copytree(project, copy, symlinks=True, ignore=left_out)
        script, folder = (
            copy / each.relative_to(project) for each in (Path(target["path"]), start)
        )
        if source == PATCHED:
            patch = (results / "tuned.patch").resolve()
            root = patched_from(script, patch)
            subprocess.run(["patch", "-f", "-s", "-p1", "-d", root, "-i", patch], check=True)
        what = ["-m", target["module"]] if target.get("module") else [str(script)]
        environment = {**os.environ, "PYTHONPATH": str(counter)}
        command = [python, *what, *target["arguments"]]
        found.append(Program(command=command, folder=folder, environment=environment))
    return found


def _target(results: Path) -> dict[str, Any]:
    target: dict[str, Any] = json.loads((results / "result.json").read_text())["target"]
    return target


def patched_from(script: Path, patch: Path) -> Path:
    """The folder that the paths of `patch` begin in: that of `script`, or one above it, as the
    program's own git has it.

    Raises:
        ValueError: there is none; the patch changes no file.
    """
    changed = re.search(r"^--- a/(.+)$", patch.read_text(), re.MULTILINE)
    for folder in script.parents if changed else ():
        if changed and (folder / changed[1]).is_file():
            return folder
    raise ValueError(f"{patch} changes no file of {script}'s")


@contextlib.contextmanager
def started(program: Program, steps: Path) -> Iterator[Contestant]:
    """A live process of `program`; nothing of it is left."""
    with steps.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            program.command,
            cwd=program.folder,
            env={**program.environment, "STEPS": str(steps)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield Contestant(process, steps)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def timed(windows: Sequence[Sequence[float]]) -> tuple[int, float, float, int]:
    """Steps, steps a second, the same without long gaps between them, and how many such gaps there
    were, of what each window has between its first step and its last.

    Raises:
        ValueError: there are fewer than two steps in each.
    """
    gaps = [later - earlier for window in windows for earlier, later in pairwise(window)]
    if not gaps:
        raise ValueError("no window has two steps")
    limit = max(LONG_GAP * median(gaps), LEAST_GAP)
    short = [each for each in gaps if each <= limit]
    return len(gaps), len(gaps) / sum(gaps), len(short) / sum(short), len(gaps) - len(short)


def take_turns(pair: Sequence[Contestant], rounds: int, window: float) -> None:
    """`rounds` windows of each, whoever was last going first in the next round."""
    for number in range(rounds):
        for each in pair if number % 2 == 0 else reversed(pair):
            each.turn(window)


def main() -> None:
    """Time a search's patch, and print a row for each of each pair."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("results", type=Path)
    parser.add_argument("--project", type=Path)
    parser.add_argument("--start", type=Path, help="where it is started; the script's folder")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--window", type=float, default=2.0)
    parser.add_argument("--warm", type=float, default=3.0)
    parser.add_argument("--out", type=Path, default=Path("steps_in_turns.tsv"))
    given = parser.parse_args()
    script = Path(_target(given.results)["path"])
    root = patched_from(script, given.results / "tuned.patch")
    start = (given.start or script.parent).resolve()
    project = Path(os.path.commonpath([(given.project or root).resolve(), start]))
    if not given.out.exists():
        given.out.write_text("\t".join(COLUMNS) + "\n")
    with tempfile.TemporaryDirectory() as work:
        sources = programs(given.results, project, start, given.python, Path(work))
        for number in range(given.pairs):
            with contextlib.ExitStack() as stack:
                pair = []
                for name, program in zip((OWN, PATCHED), sources, strict=True):
                    steps = Path(work, f"{name}.{number}")
                    pair.append(stack.enter_context(started(program, steps)))
                    pair[-1].warm_up(given.warm)
                take_turns(pair, given.rounds, given.window)
            with given.out.open("a") as file:
                for name, each in zip((OWN, PATCHED), pair, strict=True):
                    steps_taken, rate, without, gaps = timed(each.windows)
                    row = (given.results.resolve().name, number, name, steps_taken)
                    print(*row, f"{rate:.2f}", f"{without:.2f}", gaps, sep="\t", file=file)


if __name__ == "__main__":
    main()
