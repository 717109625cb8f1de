"""Energy is refused where the device reports none: at once on a CPU."""

from pathlib import Path

import pytest

from autotune import flow
from autotune.errors import UsageError
from autotune.flow import Options
from autotune.flow.device import against_speed, refuse_unknown
from autotune.trials.front import ENERGY, MEMORY
from tests import builders


def test_a_search_on_a_cpu_is_refused_before_it_starts_the_program(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("open('started', 'w')\nimport torch\n")
    with pytest.raises(UsageError, match="reports no energy"):
        flow.search(script, options=Options(energy=True, device="cpu", out=tmp_path / "out"))
    assert not (tmp_path / "started").exists()


def test_a_gpu_is_asked_once_it_is_known_which_one_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, seen = builders.machine(device="cuda", device_name="NVIDIA T4"), builders.seen()
    refuse_unknown(Options(energy=True), machine)
    monkeypatch.setattr("autotune.flow.device.reports_energy", lambda _: True)
    refuse_unknown(Options(energy=True), machine, seen)
    monkeypatch.setattr("autotune.flow.device.reports_energy", lambda _: False)
    with pytest.raises(UsageError, match="NVIDIA T4"):
        refuse_unknown(Options(energy=True), machine, seen)


def test_nothing_is_refused_that_was_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.flow.device.reports_energy", lambda _: pytest.fail("asked"))
    refuse_unknown(Options(), builders.machine(), builders.seen())


@pytest.mark.parametrize(
    ("asked", "costs"),
    [
        ({}, (MEMORY,)),
        ({"memory_limit_bytes": 1}, (MEMORY,)),
        ({"energy": True}, (ENERGY,)),
        ({"energy": True, "memory_limit_bytes": 1}, (ENERGY, MEMORY)),
    ],
)
def test_speed_is_set_against_what_was_asked_for(
    asked: dict[str, int], costs: tuple[str, ...]
) -> None:
    assert against_speed(Options(**asked)) == costs  # type: ignore[arg-type]
