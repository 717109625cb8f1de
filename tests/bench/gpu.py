"""What autotune does on a GPU, measured: planted faults, rivals, overhead, memory, parity.

    python -m tests.bench.gpu --out reports/h200 [--part planted --part rivals ...] [--fresh]

Each measurement is written to a file of its own as soon as it is there, with the machine beside it.
One that has its file is not made again without `--fresh` unless it failed, and none is begun that
would probably not be over within `--minutes`: the same command goes on where it stopped. The rivals
are installed by pip from their published packages (without a network: `PIP_NO_INDEX=1
PIP_FIND_LINKS=FOLDER`).

Without a GPU it says so and exits 4. `--rehearse` runs the same code on whatever there is, with
tiny sizes; what it writes is marked, is held to no bar, and is never written to `reports/`.
"""

import argparse
import json
import sys
import tempfile
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autotune.machine import detect
from tests.bench import gpu_checks, gpu_memory, gpu_planted, gpu_rivals
from tests.bench.gpu_bars import bars
from tests.bench.gpu_unit import Setting, Unit

NO_DEVICE = 4
# What the batches of the largest loader here take, those that its workers have ahead included.
NEEDED_SHARED_BYTES = 512 << 20
REPORTS = Path(__file__).parents[2] / "reports"
# In this order: what takes little comes first, so that a go that is cut off has most of it.
UNITS: tuple[Unit, ...] = (
    *gpu_planted.UNITS,
    *gpu_checks.UNITS,
    *gpu_memory.UNITS,
    *gpu_rivals.UNITS,
)
PARTS = tuple(dict.fromkeys(unit.part for unit in UNITS))


def measure(units: tuple[Unit, ...], setting: Setting, out: Path, seconds: float) -> list[str]:
    """Make each measurement that has no file in `out` yet, while it fits in `seconds`; the names of
    those that are left.
    """
    began, left = time.monotonic(), []
    out.mkdir(parents=True, exist_ok=True)
    for unit in units:
        path = out / f"{unit.name}.json"
        if not setting.fresh and _is_measured(path):
            continue
        spent = time.monotonic() - began
        if not setting.rehearse and spent + unit.seconds > seconds:
            left.append(unit.name)
            continue
        _say(f"{unit.name} (about {unit.seconds:.0f} s)")
        _write(path, _document(unit, setting))
    return left


def _is_measured(path: Path) -> bool:
    return path.exists() and "failed" not in json.loads(path.read_text())


def _document(unit: Unit, setting: Setting) -> dict[str, Any]:
    """What `unit` gave, or how it failed: that is a result too, and does not end the others."""
    document: dict[str, Any] = {"part": unit.part, "name": unit.name, "machine": machine()}
    if setting.rehearse:
        document["rehearsal"] = True
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{unit.name}-") as folder:
        try:
            document["measured"] = unit.measure(setting.within(Path(folder)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are measured
            said = getattr(error, "stderr", None) or getattr(error, "stdout", None)
            document["failed"] = f"{type(error).__name__}: {error}"
            document["said"] = str(said or traceback.format_exc())[-4000:]
    document["seconds"] = time.monotonic() - began
    return document


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
    path.write_text(json.dumps(document, indent=1) + "\n")
    if "failed" in document:
        _say(f"  failed: {document['failed']}\n{document['said']}")


def show(out: Path) -> None:
    """Print every bar as the files in `out` have it."""
    documents = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    for bar in bars([each for each in documents if "rehearsal" not in each]):
        print(bar, flush=True)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the raw results")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; repeatable")
    parser.add_argument("--only", action="append", help="one measurement by name; repeatable")
    parser.add_argument("--fresh", action="store_true", help="measure again what has its file")
    parser.add_argument("--minutes", type=float, default=9.5, help="begin nothing that ends later")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each contestant, no more")
    parser.add_argument("--budget", default="60s", help="of each search of autotune's")
    parser.add_argument("--rival-budget", default="fast", help="of pytorch-autotune: fast...max")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, on any device")
    arguments = parser.parse_args(given)
    if arguments.rehearse and arguments.out.resolve().is_relative_to(REPORTS):
        parser.error("a rehearsal measures nothing: choose an --out that is not in reports/")
    return arguments


def main(given: list[str] | None = None) -> int:
    """Measure on the GPU that there is, and say which bars are met."""
    import torch

    arguments = _arguments(given)
    if not torch.cuda.is_available() and not arguments.rehearse:
        _say("There is no CUDA device: nothing was measured.")
        return NO_DEVICE
    shared = detect().shared_memory_bytes
    if shared < NEEDED_SHARED_BYTES:
        _say(f"/dev/shm has {shared >> 20} MiB: loaders' workers need {NEEDED_SHARED_BYTES >> 20}.")
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
    left = measure(units, setting, arguments.out, 60 * arguments.minutes)
    show(arguments.out)
    if left:
        _say(f"Left for the next go of the same command: {', '.join(left)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
