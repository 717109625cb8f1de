"""Where runs start from: what the first one prepares is there for the others, unless they cannot
stand it.
"""

import ctypes
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.measurement import workbench
from autotune.measurement.processes.process import RunEnded
from autotune.measurement.workbench import Workbench
from autotune.workload.program.target import load_target
from tests.workload.programs import PLAIN

pytestmark = pytest.mark.usefixtures("lent_zygote")

ENDLESS = PLAIN.replace("range(50)", "range(50000)")
MNT_DETACH = 2


def program(folder: Path, before: str) -> Path:
    path = folder / "train.py"
    path.write_text(f"{before}\n{ENDLESS}")
    return path


def output(bench: Workbench, config: dict[str, int] | None = None) -> str:
    """What a further run has printed by its first step."""
    run = bench.start(config)
    try:
        run.window(0.0)
        return run.output()
    finally:
        run.kill()


@pytest.mark.parametrize(
    "insists",
    [
        "import os; os.mkdir('runs'); open('runs/log', 'x').close()",
        "import os; assert not os.path.exists('log'), 'use --overwrite'; open('log', 'w').close()",
    ],
)
def test_a_program_that_insists_on_making_its_files_makes_them_in_every_run(
    tmp_path: Path, insists: str
) -> None:
    path = program(tmp_path, insists)
    with Workbench(load_target(path)) as bench:
        bench.observe().kill()
        for _ in range(2):
            output(bench)
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]


def test_settings_that_make_a_program_crash_do_not_cost_it_what_it_prepared(
    tmp_path: Path,
) -> None:
    path = program(
        tmp_path,
        "import os, torch\n"
        "print('prepared already' if os.path.exists('cache') else 'prepares')\n"
        "open('cache', 'w').close()\n"
        "assert torch.get_num_threads() != 3, 'three'",
    )
    with Workbench(load_target(path)) as bench:
        bench.observe().kill()
        with pytest.raises(RunEnded, match="three"):
            output(bench, {"threads": 3})
        assert output(bench) == "prepared already\n"


def test_a_first_step_is_not_waited_for_longer_than_was_said(tmp_path: Path) -> None:
    waited: list[float] = []
    path = program(tmp_path, "import time; time.sleep(1000)")
    with (
        Workbench(load_target(path), first_start_limit_seconds=0.5) as bench,
        pytest.raises(RunEnded, match="first training step") as ended,
    ):
        bench.observe(waited.append)
    assert ended.value.failure.kind == "hung"
    assert waited == sorted(waited) and waited[0] < 0.5


@pytest.mark.parametrize(
    "given",
    [
        {"compiles": True},
        pytest.param({"config": {"compile": "default"}}, marks=pytest.mark.slow),
    ],
)
def test_what_compiles_may_take_longer_to_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    path = program(tmp_path, "import time; time.sleep(0.2)")
    with Workbench(load_target(path)) as bench:
        bench.observe().kill()
        monkeypatch.setattr(workbench, "LIMIT_FLOOR_SECONDS", 0.1)
        monkeypatch.setattr(workbench, "LATER_STARTS_TAKE_AT_MOST", 0.0)
        with pytest.raises(RunEnded, match="first training step"):
            bench.start().await_first_step()
        run = bench.start(**given)
        run.await_first_step()
        assert "torch.compile" in run.slow_because
        run.kill()
        late = bench.start(**given, compiles_until=time.monotonic() - 1)
        with pytest.raises(RunEnded, match="when its time was over") as ended:
            late.await_first_step()
        assert ended.value.failure.kind == "hung"


def test_what_the_program_does_between_two_steps_may_take_its_time_in_later_runs(
    tmp_path: Path,
) -> None:
    with Workbench(load_target(program(tmp_path, ""))) as bench:
        bench.observe().kill()
        limits = []
        for seconds in (2.0, 70.0):
            bench.longest_gap_seconds = seconds
            run = bench.start()
            limits.append(run.step_limit_seconds)
            run.kill()
    assert limits[0] < limits[1] and 2 * limits[1] >= 3 * 70.0


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 3 MiB for temporary files."""
    disk = tmp_path / "disk"
    disk.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"disk", bytes(disk), b"tmpfs", 0, b"size=3m") != 0:
        pytest.skip("this user cannot mount a disk")
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    yield disk
    libc.umount2(bytes(disk), MNT_DETACH)


@pytest.mark.parametrize(
    "writes",
    [
        "open('cache', 'wb').write(bytes(8_000_000))",
        "open('{folder}/large', 'r+b').write(b'x')",  # copied first, without room for that
    ],
)
def test_a_full_disk_is_not_the_programs_fault(
    small_disk: Path, tmp_path: Path, writes: str
) -> None:
    (tmp_path / "large").write_bytes(bytes(8_000_000))
    path = program(tmp_path, writes.format(folder=tmp_path))
    with Workbench(load_target(path)) as bench, pytest.raises(RunEnded) as ended:
        bench.observe()
    assert ended.value.failure.kind == "no_space"
    assert not list(small_disk.rglob("search-*"))
