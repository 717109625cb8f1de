"""What a forward pass runs of the program's own between torch's operations."""

import tempfile
import time
import zlib
from pathlib import Path

import torch

from autotune.workload.found import MARK, Between
from autotune.workload.live import Live
from autotune.workload.looks.lines import Sampling
from autotune.workload.looks.watch import Watch
from autotune.workload.system.quiet import quietly


class LookingBetween(Watch):
    """Looks at the stack while torch's profiler notes when its operations run.

    A look alone cannot tell the two apart: where a line of the program's own calls an operation,
    there is no frame of torch's.
    """

    @quietly()
    def __init__(self, live: Live) -> None:
        self._sampling = Sampling(live)
        self._profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self._marked = 0.0

    @quietly()
    def begin(self) -> None:
        self._profiler.start()
        for _ in range(2):  # the first takes longer
            self._marked = time.perf_counter()
            with torch.profiler.record_function(MARK):
                pass
        self._sampling.begin()

    @quietly()
    def end(self) -> Between:
        self._sampling.end()
        self._profiler.stop()
        return Between(
            trace=packed(self._profiler),
            marked=self._marked,
            looks=self._sampling.looks,
            inside=tuple(self._sampling.inside),
        )


def packed(profiler: torch.profiler.profile) -> bytes:
    """Its trace: JSON, compressed by zlib."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        return zlib.compress(path.read_bytes(), 1)
