"""Memory that the program frees stays with its process instead of going back to the system.

What it does
    Tells glibc never to shrink the heap (`mallopt`, M_TRIM_THRESHOLD) and to take large pieces from
    it as well (M_MMAP_MAX), so that what a step frees is what the next one finds.

When it helps
    On Linux, when the program's activations, batches or gradients are given back to the system and
    taken again in each step. Every page of 4 KiB then costs a fault and is filled with zeros. By
    itself glibc does so with each piece beyond 32 MiB, and with the top of the heap when nothing
    happens to lie above it: two processes of one program differ in that.

What it costs
    The process never becomes smaller again, and gaps in its heap that nothing fits into may make it
    grow larger. Large pieces that grow in place are copied. It cannot be taken back: a process that
    trains with a `Trainer` keeps its memory afterwards too.

What it changes
    Nothing: the same numbers lie at other addresses. Refused where the program asks how much memory
    its process has, and may do something else where that is more; and where it reads memory that it
    never wrote, which is seen by its losses once new memory is not full of zeros.
"""

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import on_cuda
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ProcessStatement
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup
from autotune.workload.system.heap import KEEPING, can_keep_freed_memory, keep_freed_memory

# Wall of a step for each of its faults: 0.2 to 2.1 us in four programs (reports/programs,
# transformer_page_faults.tsv, sincnet_page_faults.tsv, faults_by_process.tsv).
FAULT_SECONDS = 1e-6
# Below so many a second they are about 1 % of the time at the most. Not the 3 % below which nothing
# is tried elsewhere: other settings, and other processes, may have several times as many.
FEW_FAULTS = 5_000
_PAGE_BYTES = 4096


class KeepFreedMemory(Knob):
    name = "keep_freed_memory"
    relieves = frozenset({Bottleneck.COMPUTE, Bottleneck.OVERHEAD, Bottleneck.DATA})
    semantics = Semantics.IDENTICAL
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        if self.read(profile.seen):
            return Skip(reason="the process keeps the memory that it frees already")
        if not can_keep_freed_memory():
            return Skip(
                reason="the program's allocator is not that of glibc 2.33 or later",
                impossible=True,
            )
        faults = _curable_faults(profile)
        if faults is None:
            return Skip(reason="how often memory is taken from the system was not measured")
        if faults < FEW_FAULTS:
            return Skip(
                reason="what memory it took from the system when profiled cost next to nothing"
            )
        return Choices(own=False, values=(False, True))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        faults = _curable_faults(profile) or 0.0
        share = min(0.5, faults * FAULT_SECONDS)
        return Expectation(
            phase="data" if on_cuda(profile) else "compute",
            log_mean=-share if value else 0.0,
            sd=0.1,
        )

    def read(self, seen: Seen) -> Value:
        return seen.keeps_freed_memory

    def apply(self, setup: Setup, value: Value) -> None:
        if value:
            setup.process.append(keep_freed_memory)

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        if not value:
            return ()
        calls = "".join(
            f"    ctypes.CDLL(None).mallopt({parameter}, {told})  # as {name}={told}\n"
            for parameter, told, name in KEEPING
        )
        return (
            ProcessStatement(
                code=f'if platform.libc_ver()[0] == "glibc":  # keep memory that is freed\n{calls}',
                imports=("import ctypes", "import platform"),
                keeps_memory=True,
            ),
        )


def _curable_faults(profile: Profile) -> float | None:
    """Page faults a second of the training process, without those of batches that workers hand
    over in memory of their own; None if unknown.
    """
    faults, loader = profile.page_faults_per_second, profile.seen.loader
    if faults is None or loader is None or not loader.num_workers:
        return faults
    handed_over = profile.seen.batch_bytes / _PAGE_BYTES / profile.step_seconds
    return max(0.0, faults - handed_over)
