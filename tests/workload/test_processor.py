"""What the system says of the processors, from a file of its own making."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from autotune.workload.system import processor
from autotune.workload.system.processor import Processor

TICKS = os.sysconf("SC_CLK_TCK")


def stat(*, busy: float, stolen: float, elsewhere: float = 9.0) -> str:
    """A /proc/stat of three processors, of which the last is not to be used; times in seconds."""

    def line(name: str, user: float, steal: float) -> str:
        ticks = (round(each * TICKS) for each in (user, 0, 0, 70, 0, 0, 0, steal, 0, 0))
        return f"{name} {' '.join(map(str, ticks))}"

    lines = (
        line("cpu", busy + elsewhere, stolen + elsewhere),
        line("cpu0", busy / 2, stolen / 2),
        line("cpu1", busy / 2, stolen / 2),
        line("cpu2", elsewhere, elsewhere),
        "intr 1 2 3",
    )
    return "\n".join(lines)


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Callable[..., float | None]:
    """Seconds stolen from a process that used so much, between two looks at the system, or used by
    others.
    """
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    monkeypatch.setattr(processor, "_children_seconds", lambda _: 0.0)

    def stolen(*, own: float, before: str, after: str, others: bool = False) -> float | None:
        files = iter([before, after])
        clock = iter([1.0, 1.0 + own])
        monkeypatch.setattr(
            processor, "read_text", lambda path: next(files) if path == "/proc/stat" else ""
        )
        monkeypatch.setattr(processor.time, "process_time", lambda: next(clock))
        found = Processor(lambda: 2).spent()
        return found["others_seconds"] if others else found["stolen_seconds"]

    return stolen


def test_what_the_host_takes_from_a_program_alone_is_taken_from_it(
    spent: Callable[..., float],
) -> None:
    before, after = stat(busy=10.0, stolen=2.0), stat(busy=11.0, stolen=2.6, elsewhere=20.0)
    assert spent(own=1.0, before=before, after=after) == pytest.approx(0.6)


def test_others_have_their_share_of_it(spent: Callable[..., float]) -> None:
    before, after = stat(busy=10.0, stolen=2.0), stat(busy=14.0, stolen=2.6)
    assert spent(own=1.0, before=before, after=after) == pytest.approx(0.15)


def test_what_others_used_is_what_the_program_did_not(spent: Callable[..., float]) -> None:
    before, after = stat(busy=10.0, stolen=2.0), stat(busy=12.5, stolen=2.0, elsewhere=20.0)
    assert spent(own=1.0, before=before, after=after, others=True) == pytest.approx(1.5)
    assert spent(own=3.0, before=before, after=after, others=True) == 0.0


def test_a_system_that_does_not_say_has_taken_nothing(spent: Callable[..., float]) -> None:
    assert spent(own=1.0, before="", after="cpu0 1 2 3") == 0.0
    assert spent(own=1.0, before="", after="cpu0 1 2 3", others=True) is None


BURN = "import time\nends = time.process_time() + 0.3\nwhile time.process_time() < ends: pass\n"
BY_A_CHILD = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\n"


@pytest.mark.parametrize("text", [BURN, BY_A_CHILD], ids=["child", "grandchild"])
@pytest.mark.parametrize("ends", [True, False])
def test_what_started_processes_use_is_the_programs_own(text: str, ends: bool) -> None:
    counted = Processor(lambda: 2)
    child = subprocess.Popen(
        [sys.executable, "-c", f"{text}print(flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    if ends:
        child.communicate(b"\n")
    spent = counted.spent()
    assert spent["worker_cpu_seconds"] >= 0.29  # ticks are 10 ms, and their sums are rounded
    if not ends:
        child.communicate(b"\n")
    assert counted.spent()["worker_cpu_seconds"] < 0.3  # nothing counts twice
