"""What the host of a virtual machine takes from a program, and what its speed makes of that.

    python -m tests.bench.stolen examples/photos.py [--turns 40] [--out reports/bench/stolen.json]

The program as it is and with one thread take turns. Their windows are put in order of what was
taken of what they wanted, and each fifth of them has a line: its speed, as a share of the speed in
the fifth from which least was taken, beside what the run-queue says (`delayed`) and what the host
took (`stolen`), in processors. On a machine without a host, or with an idle one, all lines say the
same.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from autotune.machine import detect, usable_cores
from autotune.measurement.doubts import processors
from autotune.measurement.interleaved.turns import TURN_SECONDS
from autotune.measurement.workbench import Workbench
from autotune.workload.program.target import load_target
from autotune.workload.window import Window

WARM_SECONDS = 2.0
PARTS = 5
PROGRAMS: dict[str, dict[str, Any]] = {"as it is": {}, "one thread": {"threads": 1}}


def in_turns(path: Path, turns: int) -> dict[str, list[Window]]:
    """Windows of each of PROGRAMS, taken in turns."""
    with Workbench(load_target(path)) as bench:
        runs = {name: bench.start(config) for name, config in PROGRAMS.items()}
        for run in runs.values():
            run.window(WARM_SECONDS)
            run.pause()
        taken: dict[str, list[Window]] = {name: [] for name in PROGRAMS}
        for _ in range(turns):
            for name, run in runs.items():
                taken[name].append(run.window(TURN_SECONDS))
                run.pause()
        for run in runs.values():
            run.kill()
    return taken


def missed(window: Window) -> float:
    """The share that was kept from it of the processors that it wanted."""
    used, kept = processors(window, cores=usable_cores())
    return kept / (used + kept) if used + kept else 0.0


def in_parts(windows: Sequence[Window]) -> list[dict[str, float]]:
    """By part of the windows, from that which missed least: its speed, and what it had."""
    ordered = sorted(windows, key=missed)
    parts = [
        ordered[len(ordered) * part // PARTS : len(ordered) * (part + 1) // PARTS]
        for part in range(PARTS)
    ]
    most = fmean(window.samples_per_second for window in parts[0])
    return [
        {
            "missed": fmean(map(missed, part)),
            "speed": fmean(window.samples_per_second for window in part) / most,
            "used": fmean(window.cpu_seconds / window.seconds for window in part),
            "delayed": fmean(window.delayed_seconds / window.seconds for window in part),
            "stolen": fmean(window.stolen_seconds / window.seconds for window in part),
        }
        for part in parts
    ]


def main() -> None:
    """Print the parts of each; `--out` keeps all windows."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    taken = in_turns(arguments.program, arguments.turns)
    parts = {name: in_parts(windows) for name, windows in taken.items()}
    for name, lines in parts.items():
        for line in lines:
            figures = ", ".join(f"{what} {value:.2f}" for what, value in line.items())
            print(f"{name:10} {figures}")
    if arguments.out:
        machine = detect()
        facts = {
            "program": arguments.program.name,
            "device": machine.device_name,
            "cores": machine.cores,
            "parts": parts,
            "windows": {
                name: [asdict(window) | {"step_seconds": (), "losses": ()} for window in windows]
                for name, windows in taken.items()
            },
        }
        arguments.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
