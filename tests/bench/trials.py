"""What a trial costs beside its measuring: starting a process, talking to it, ending it, and
planning the next.

    python -m tests.bench.trials [--budget 60s] [--out reports/bench/trials.json] [EXAMPLE...]

Searches the examples as a user would, and takes the time of everything in this process. What a
trial measures is the sum of its windows, those of its warm-up included, as the program timed them;
its overhead is all else between its beginning and its end. A start is from the request for a
process to the report that its first step is done; what the program does before that (reading its
data) is in it.
"""

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from autotune.durations import parse_duration
from autotune.flow import Options, search
from autotune.listener import Listener
from autotune.machine import detect
from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.workbench import Workbench

EXAMPLES_FOLDER = Path(__file__).parents[2] / "examples"
MOST_OVERHEAD_SECONDS = 1.0


@dataclass(slots=True, kw_only=True)
class Cost:
    """One trial, in seconds: all of it, what was measured in it, its starts, the planning before
    it.
    """

    config: dict[str, object]
    planning_seconds: float
    seconds: float = 0.0
    measured_seconds: float = 0.0
    starts_seconds: list[float] = field(default_factory=list)

    @property
    def overhead_seconds(self) -> float:
        """All that is not measuring."""
        return self.planning_seconds + self.seconds - self.measured_seconds


class Recorder(Listener):
    """Notes when trials begin and end, and what is measured meanwhile."""

    def __init__(self) -> None:
        self.costs: list[Cost] = []
        self._open: Cost | None = None
        self._at = time.perf_counter()

    def space(self, space: Any) -> None:
        self._at = time.perf_counter()

    def trial_begins(self, number: int, config: Any, *_: Any) -> None:
        now = time.perf_counter()
        self._open = Cost(config=dict(config), planning_seconds=now - self._at)
        self._at = now

    def trial_ended(self, *_: Any) -> None:
        now = time.perf_counter()
        cost, self._open = self._open, None
        if cost is not None and cost.config:  # the program as it is was measured before
            cost.seconds = now - self._at
            self.costs.append(cost)
        self._at = now

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Takes the time of every start and every window in this process."""
        window, start, first = ProcessRun.window, Workbench.start, ProcessRun.await_first_step
        asked: dict[int, float] = {}

        def timed_window(run: ProcessRun, *words: Any, **named: Any) -> Any:
            taken = window(run, *words, **named)
            if self._open:
                self._open.measured_seconds += taken.seconds
            return taken

        def timed_start(bench: Workbench, *words: Any, **named: Any) -> ProcessRun:
            began = time.perf_counter()
            run = start(bench, *words, **named)
            asked[run.pid] = began
            return run

        def timed_first_step(run: ProcessRun, *words: Any) -> None:
            first(run, *words)
            began = asked.pop(run.pid, None)
            if began is not None and self._open:
                self._open.starts_seconds.append(time.perf_counter() - began)

        with (
            patch.object(ProcessRun, "window", timed_window),
            patch.object(Workbench, "start", timed_start),
            patch.object(ProcessRun, "await_first_step", timed_first_step),
        ):
            yield


def costs_of(name: str, budget_seconds: float) -> list[Cost]:
    """What the trials of a search of this example cost."""
    recorder = Recorder()
    with recorder.watching():
        search(
            EXAMPLES_FOLDER / f"{name}.py",
            listener=recorder,
            options=Options(budget_seconds=budget_seconds),
        )
    return recorder.costs


def main() -> None:
    """Print what trials cost beside their measuring, by example; `--out` keeps each."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", default=["tabular", "photos"])
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    machine = detect()
    facts: dict[str, Any] = {
        "device": machine.device_name,
        "cores": machine.cores,
        "versions": dict(machine.versions),
    }
    for name in arguments.examples:
        costs = costs_of(name, parse_duration(arguments.budget))
        facts[name] = [
            {**asdict(cost), "overhead_seconds": cost.overhead_seconds} for cost in costs
        ]
        overheads = [cost.overhead_seconds for cost in costs]
        starts = [seconds for cost in costs for seconds in cost.starts_seconds]
        if not starts:
            print(f"{name}: no trial was run")
            continue
        print(
            f"{name}: {len(costs)} trials; overhead median {median(overheads):.2f} s, most "
            f"{max(overheads):.2f} s (at most {MOST_OVERHEAD_SECONDS:g} s is asked for); start "
            f"median {median(starts):.3f} s, most {max(starts):.3f} s",
            flush=True,
        )
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
