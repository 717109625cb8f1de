"""`autotune` as a command, which also keeps what the device itself said: the profiler's traces and
the driver's readings, as they came in.

    python -m tests.bench.gpu_raw RAW.json profile train.py ...

What reads them is the first to be wrong on a device that nobody had when it was written: with these
it can be tested where there is none (`Raw`).
"""

import base64
import json
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from autotune.measurement.readings import telemetry
from autotune.measurement.untimed import watching
from autotune.nvml import Activity, Reading
from autotune.profiling.telemetry import Telemetry, sum_up
from autotune.profiling.trace import Trace, parse_trace


@dataclass(frozen=True, slots=True)
class Raw:
    """Traces and readings as a file has them: JSON throughout."""

    traces: list[dict[str, Any]] = field(default_factory=list)
    readings: list[dict[str, Any]] = field(default_factory=list)

    def add_trace(self, text: bytes, *, steps: int, leading: int) -> None:
        """Keep a trace of so many steps, and some before."""
        packed = base64.b64encode(zlib.compress(text)).decode()
        self.traces.append({"steps": steps, "leading": leading, "zlib": packed})

    def add_readings(
        self, readings: Sequence[Reading], *, activity: Activity | None = None, **others: Any
    ) -> None:
        """Keep the readings of a while, and what was asked once."""
        self.readings.append(
            {
                "readings": [asdict(each) for each in readings],
                "activity": activity and asdict(activity),
                **others,
            }
        )

    def parsed(self) -> list[Trace | None]:
        """What autotune reads in the traces."""
        return [
            parse_trace(
                zlib.decompress(base64.b64decode(each["zlib"])),
                steps=each["steps"],
                leading=each["leading"],
            )
            for each in self.traces
        ]

    def summed(self) -> list[Telemetry]:
        """What autotune makes of the readings."""
        return [_summed(**each) for each in self.readings]


def _summed(
    readings: Sequence[Mapping[str, Any]],
    activity: Mapping[str, Any] | None,
    pcie_limit: Sequence[int] | None,
    other_processes: int | None,
) -> Telemetry:
    return sum_up(
        [Reading(**{**each, "slowed_by": _tuple(each["slowed_by"])}) for each in readings],
        pcie_limit=None if pcie_limit is None else (pcie_limit[0], pcie_limit[1]),
        other_processes=other_processes,
        activity=Activity(**activity) if activity else None,
    )


def _tuple(given: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


def run(raw: Raw, command: Callable[[], object]) -> None:
    """Run `command` in this process, keeping in `raw` what it reads of the device."""

    def parse(text: bytes, *, steps: int, leading: int) -> Trace | None:
        raw.add_trace(text, steps=steps, leading=leading)
        return parse_trace(text, steps=steps, leading=leading)

    def sums(readings: Sequence[Reading], **others: Any) -> Telemetry:
        raw.add_readings(readings, **others)
        return sum_up(readings, **others)

    with ExitStack() as patched:
        patched.enter_context(patch.object(watching, "parse_trace", parse))
        patched.enter_context(patch.object(telemetry, "sum_up", sums))
        command()


if __name__ == "__main__":
    from autotune.cli import main

    KEPT, path = Raw(), Path(sys.argv.pop(1))
    try:
        run(KEPT, main)
    finally:
        path.write_text(json.dumps(asdict(KEPT)))
