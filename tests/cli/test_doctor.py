import json
import random
from dataclasses import replace

import pytest

from autotune.measurement.interleaved import calibration
from autotune.measurement.interleaved.calibration import Calibration, conclude
from autotune.measurement.ratios import Ratio
from tests.bench.simulation import Noise, process_pair
from tests.cli.conftest import Run


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> Calibration:
    """What a calibration gives in this test."""
    chance = random.Random(1)
    rounds = [process_pair(1.0, (5, 5), Noise(stalls=0.0), chance) for _ in range(9)]
    found = conclude(rounds, 2, seconds=56.0)
    monkeypatch.setattr(calibration, "calibrate", lambda *_, **__: found)
    return found


def test_every_ability_is_yes_or_no(run: Run) -> None:
    answer = run("doctor", "--device", "cpu")

    machine, abilities = answer.stdout.split("\n\n")
    assert answer.exit_code == 0
    assert "torch" in machine
    assert all(line.startswith(("yes  ", "no   ")) for line in abilities.splitlines())


def test_json_is_one_document(run: Run) -> None:
    document = json.loads(run("doctor", "--device", "cpu", "--json").stdout)

    assert document["machine"]["device"] == "cpu"
    assert document["abilities"]


def test_a_device_that_there_is_not_is_refused(run: Run) -> None:
    answer = run("doctor", "--device", "abacus")

    assert answer.exit_code == 2
    assert "cpu or cuda" in answer.stderr


def test_calibrating_says_how_small_a_gain_is_told_in_how_long(
    run: Run, calibrated: Calibration
) -> None:
    answer = run("doctor", "--device", "cpu", "--calibrate")

    assert answer.exit_code == 0
    assert "in 9 pairs of processes" in answer.stdout
    assert "2 turns were left out" in answer.stdout
    rows = [line.split() for line in answer.stdout.splitlines() if " % " in line][-4:]
    assert [row[0] for row in rows] == ["2", "5", "10", "20"]
    assert "longer than a search judges" in answer.stdout


def test_the_ends_of_its_interval_are_1_only_where_they_are(
    run: Run, calibrated: Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = replace(calibrated, ratio=Ratio(estimate=1.0, low=0.9996, high=1.0033))
    monkeypatch.setattr(calibration, "calibrate", lambda *_, **__: near)

    said = run("doctor", "--device", "cpu", "--calibrate").stdout
    assert "came out 1.00× (95 % interval 0.9996 to 1.003)" in said


def test_what_was_calibrated_is_in_the_json(run: Run, calibrated: Calibration) -> None:
    document = json.loads(run("doctor", "--device", "cpu", "--calibrate", "--json").stdout)

    assert document["calibration"]["rounds"] == 9
    assert [each["gain"] for each in document["calibration"]["tellable"]] == [0.02, 0.05, 0.1, 0.2]


def test_a_budget_that_is_no_time_is_refused(run: Run) -> None:
    assert run("doctor", "--calibrate", "--budget", "soon").exit_code == 2
