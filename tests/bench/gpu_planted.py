"""Programs with one fault planted in each, and one without: is each diagnosed right?

What is written is a recorded run (see `tests.recorded`), which the ordinary tests replay once it is
there.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tests.bench.gpu_unit import PROGRAMS, ROOT, Setting, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a diagnosis must say: `first` of its findings is one of these (nothing but "compute" may
    be first in a healthy program), and none of `absent` is a warning or worse.
    """

    first: tuple[str, ...]
    absent: tuple[str, ...] = ()

    def missed(self, diagnosis: list[Mapping[str, Any]]) -> list[str]:
        """Each way in which `diagnosis` says something else."""
        said = [finding["bottleneck"] for finding in diagnosis]
        loud = {each["bottleneck"] for each in diagnosis if each["severity"] != "info"}
        missed = []
        if said[:1] and said[0] not in self.first:
            missed.append(f"{said[0]} came first, and not {' or '.join(self.first)}")
        return missed + [f"{name} was found" for name in self.absent if name in loud]


WAITS = ("data", "copy", "sync", "host", "overhead")
FAULTS = {
    "healthy": Expected(first=("compute",), absent=WAITS),
    "pageable": Expected(first=("copy",), absent=("data", "overhead")),
    "slow_loader": Expected(first=("data",), absent=("copy",)),
    "item_free": Expected(first=("compute",), absent=WAITS),
    "item_costly": Expected(first=("sync",), absent=("data", "copy")),
    "tiny_kernels": Expected(first=("overhead",), absent=("data", "copy", "sync")),
}


# What the device itself said is large, and is kept of these: one that keeps it busy, and one that
# lets it wait.
WITH_RAW = ("healthy", "item_costly")


def diagnose(fault: str, setting: Setting) -> dict[str, Any]:
    """Profile the program with `fault`, as a user would."""
    program, out, raw = (setting.work / name for name in ("planted.py", "out", "raw.json"))
    program.write_text((PROGRAMS / "planted.py").read_text())
    budget, scale = ("4s", "1") if setting.rehearse else ("20s", "8")
    subprocess.run(
        [
            *(sys.executable, "-m", "tests.bench.gpu_raw", str(raw), "profile", str(program)),
            *("--budget", budget, "--out", str(out), "--", fault, "--scale", scale),
        ],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    result = json.loads((out / "result.json").read_text())
    expected = FAULTS[fault]
    return {
        "fault": fault,
        "expected": asdict(expected),
        "missed": expected.missed(result["diagnosis"]),
        "result": result,
        **({"raw": json.loads(raw.read_text())} if fault in WITH_RAW else {}),
    }


def _unit(fault: str) -> Unit:
    return Unit(
        part="planted",
        name=f"planted-{fault}",
        seconds=28,
        measure=lambda setting: diagnose(fault, setting),
    )


UNITS = tuple(_unit(fault) for fault in FAULTS)
