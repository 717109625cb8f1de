"""Readings of a device summed up: what is not known stays so."""

import pytest

from autotune.nvml import Activity, Reading
from autotune.profiling.telemetry import Telemetry, joules_per_sample, sum_up
from autotune.workload.window import AS_IS, Window

# Two seconds in which 100 samples were trained on.
WINDOWS = [Window(mode=AS_IS, steps=5, samples=50, seconds=1.0)] * 2


def test_power_is_the_energy_that_was_used() -> None:
    found = sum_up(
        [
            Reading(seconds=10.0, energy_joules=1000.0, power_watts=100.0),
            Reading(seconds=12.0, energy_joules=1600.0, power_watts=120.0),
        ]
    )
    assert (found.energy_joules, found.seconds, found.power_watts) == (600.0, 2.0, 300.0)


def test_without_a_meter_power_is_the_mean_of_what_was_drawn() -> None:
    found = sum_up([Reading(seconds=0, power_watts=100.0), Reading(seconds=1, power_watts=120.0)])
    assert (found.energy_joules, found.power_watts) == (None, 110.0)


def test_a_meter_that_began_anew_says_nothing() -> None:
    found = sum_up([Reading(seconds=0, energy_joules=9.0), Reading(seconds=1, energy_joules=1.0)])
    assert found.energy_joules is None


def test_a_meter_that_stands_still_says_nothing_rather_than_none() -> None:
    found = sum_up(
        [Reading(seconds=each, energy_joules=9.0, power_watts=80.0) for each in (0.0, 1.0)]
    )
    assert (found.energy_joules, found.power_watts) == (None, 80.0)


def test_what_a_sample_takes_is_the_power_over_the_time_that_it_takes() -> None:
    assert joules_per_sample(Telemetry(seconds=2.1, readings=20, power_watts=300.0), WINDOWS) == 6.0


@pytest.mark.parametrize(
    "unknown",
    [
        None,
        Telemetry(seconds=2.1, readings=20),
        Telemetry(seconds=0.7, readings=7, power_watts=300.0),
        Telemetry(seconds=2.1, readings=20, power_watts=300.0, other_processes=1),
    ],
    ids=["no device", "does not say", "too brief", "shared"],
)
def test_what_a_sample_takes_is_unknown_where(unknown: Telemetry | None) -> None:
    assert joules_per_sample(unknown, WINDOWS) is None


def test_what_slows_the_device_is_a_share_of_the_readings() -> None:
    reasons = [("power cap",), ("power cap", "heat (hardware)"), (), None]
    found = sum_up([Reading(seconds=0, slowed_by=each) for each in reasons])
    assert found.slowed == pytest.approx({"power cap": 2 / 3, "heat (hardware)": 1 / 3})


@pytest.mark.parametrize(("seconds", "known"), [(0.05, False), (0.2, True)])
def test_counters_say_nothing_of_less_time_than_they_take_to_be_renewed(
    seconds: float, known: bool
) -> None:
    counted = Activity(sm_share=0.0, occupancy=0.0, tensor_share=0.0, memory_share=0.0)
    readings = [Reading(seconds=each) for each in (0.0, seconds)]
    assert sum_up(readings, activity=counted).activity == (counted if known else None)


def test_a_device_that_says_nothing_is_unknown() -> None:
    found = sum_up([Reading(seconds=0.0), Reading(seconds=1.0)])
    known = {name for name in found.__slots__ if getattr(found, name) is not None}
    assert known == {"seconds", "readings"}


def test_the_link_is_as_good_as_it_was_when_it_was_used() -> None:
    links = [Reading(seconds=0, pcie_generation=each, pcie_width=16) for each in (1, 4, 1)]
    assert sum_up(links).pcie_generation == 4


@pytest.mark.parametrize(
    ("limit", "gigabytes"),
    [((3, 16), 15.8), ((4, 8), 15.8), ((5, 16), 63.0), ((9, 16), None), (None, None)],
)
def test_a_link_carries_what_its_lanes_do(
    limit: tuple[int, int] | None, gigabytes: float | None
) -> None:
    carried = Telemetry(seconds=1.0, readings=9, pcie_limit=limit).link_bytes_per_second
    assert carried == (None if gigabytes is None else pytest.approx(gigabytes * 1e9, rel=0.01))
