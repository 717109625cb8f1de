"""What autotune does on a GPU, measured: rivals, planted faults, memory, parity, overhead.

    python -m tests.bench.gpu --out reports/h200 [--minutes 8] [--part planted ...] [--fresh]

Each measurement is written to a file of its own as soon as it is there, with the machine beside it.
One that has its file is not made again without `--fresh` unless it failed, and none is begun that
would probably not be over within `--minutes` of the process's start, nor goes on beyond: the same
command goes on where it stopped. What failed is tried again last. The rivals are installed by pip
from their published packages (without a network: `PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER`); Python's
`venv` with pip is needed for loadtune. Without `git` the tuned program is taken as it was written.

Without a GPU it says so and exits 4. `--rehearse` runs the same code on whatever there is, with
tiny sizes; what it writes is marked, is held to no bar, and is never written to `reports/`.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path

import psutil

from autotune.machine import detect
from tests.bench import gpu_checks, gpu_jpeg, gpu_memory, gpu_planted, gpu_rivals
from tests.bench.gpu_bars import bars
from tests.bench.gpu_go import measure, say
from tests.bench.gpu_unit import Setting, Unit

NO_DEVICE, INTERRUPTED = 4, 130
# What the batches of the largest loader here take, those that its workers have ahead included.
NEEDED_SHARED_BYTES = 512 << 20
REPORTS = Path(__file__).parents[2] / "reports"
# In this order: what says most in the shortest time. All before the rivals fits one go.
UNITS: tuple[Unit, ...] = (
    *gpu_planted.UNITS,
    *gpu_memory.UNITS,
    *gpu_checks.UNITS,
    *gpu_rivals.UNITS,
    *gpu_jpeg.UNITS,
)
PARTS = tuple(dict.fromkeys(unit.part for unit in UNITS))


def show(out: Path) -> None:
    """Print every bar as the files in `out` have it, and what has no file yet."""
    documents = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    measured = [each for each in documents if "rehearsal" not in each]
    for bar in bars(measured, [unit.name for unit in UNITS]):
        print(bar, flush=True)


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the raw results")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; repeatable")
    parser.add_argument("--only", action="append", help="one measurement by name; repeatable")
    parser.add_argument("--fresh", action="store_true", help="measure again what has its file")
    parser.add_argument("--minutes", type=float, default=8, help="be over by then")
    parser.add_argument("--rounds", type=int, help="runs of each contestant, no more")
    parser.add_argument(
        "--budget", help="of each search of autotune's; by the rival's, if not said"
    )
    parser.add_argument("--rival-budget", default="fast", help="of pytorch-autotune: fast...max")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, on any device")
    arguments = parser.parse_args(given)
    if arguments.rehearse and arguments.out.resolve().is_relative_to(REPORTS):
        parser.error("a rehearsal measures nothing: choose an --out that is not in reports/")
    return arguments


def main(given: list[str] | None = None, began: float | None = None) -> int:
    """Measure on the GPU that there is, and say which bars are met; `--minutes` count from `began`,
    a time of the clock, and from now without it.
    """
    import torch

    began = began or time.time()
    arguments = _arguments(given)
    if not torch.cuda.is_available() and not arguments.rehearse:
        say("There is no CUDA device: nothing was measured.")
        return NO_DEVICE
    shared = detect().shared_memory_bytes
    if shared < NEEDED_SHARED_BYTES:
        say(f"/dev/shm has {shared >> 20} MiB: loaders' workers need {NEEDED_SHARED_BYTES >> 20}.")
    setting = Setting(
        rehearse=arguments.rehearse,
        fresh=arguments.fresh,
        rounds=arguments.rounds,
        budget=arguments.budget,
        rival_budget=arguments.rival_budget,
    )
    units = tuple(
        unit
        for unit in UNITS
        if (not arguments.part or unit.part in arguments.part)
        and (not arguments.only or unit.name in arguments.only)
    )
    seconds = 60 * arguments.minutes - (time.time() - began)
    try:
        left = measure(units, setting, arguments.out, seconds)
    except KeyboardInterrupt:
        say("Interrupted; what was finished is kept.")
        return INTERRUPTED
    if not arguments.rehearse:
        show(arguments.out)
    if left:
        say(f"Left for the next go of the same command: {', '.join(left)}")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no run is left behind
    sys.exit(main(began=psutil.Process().create_time()))
