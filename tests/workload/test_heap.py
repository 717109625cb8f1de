"""Memory that a process frees stays with it where it is told so, and that is seen."""

import subprocess
import sys

import pytest

from autotune.workload.system import heap
from autotune.workload.system.heap import can_keep_freed_memory, keeps_freed_memory

pytestmark = pytest.mark.skipif(not can_keep_freed_memory(), reason="another allocator")

# 20 times 48 MiB, touched and given up, as a training's activations are: beyond what glibc takes
# from its heap by itself.
PROGRAM = """
import resource
from autotune.workload.system.heap import keep_freed_memory, keeps_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

seen = [keeps_freed_memory(), keeps_freed_memory()]
if {keep}:
    keep_freed_memory()
    seen += [keeps_freed_memory(), keeps_freed_memory()]
bytearray(48 << 20)
before = faults()
for _ in range(20):
    bytearray(48 << 20)
print(faults() - before, *seen)
"""


def outcome(keep: bool) -> tuple[int, list[str]]:
    text = PROGRAM.format(keep=keep)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    faults, *seen = done.stdout.split()
    return int(faults), seen


def test_memory_is_given_back_and_taken_again() -> None:
    faults, seen = outcome(keep=False)
    assert faults > 20 * 100  # pages, of 4 KiB or of 2 MiB
    assert seen == ["False", "False"]


def test_memory_is_kept() -> None:
    faults, seen = outcome(keep=True)
    assert faults < 100
    assert seen == ["False", "False", "True", "True"]


MIB = 1 << 20


@pytest.mark.parametrize(
    ("used", "left", "kept"),
    [
        (164 * MIB - 4096, 264 * MIB - 4096, True),  # other threads have freed some meanwhile
        (164 * MIB + 4096, 265 * MIB, True),  # or taken some
        (164 * MIB + 4096, 200 * MIB, False),
        (100 * MIB + 4096, 200 * MIB, False),  # beside the heap
    ],
)
def test_what_other_threads_take_and_free_changes_nothing(
    used: int, left: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = (
        heap._Counts(arena=200 * MIB, uordblks=100 * MIB),
        heap._Counts(arena=264 * MIB, uordblks=used),
        heap._Counts(arena=left, uordblks=100 * MIB),
    )
    monkeypatch.setattr(heap, "_while_taking_much", lambda: counts)
    assert keeps_freed_memory() is kept
