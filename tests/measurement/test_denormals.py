"""What denormal numbers cost is timed where they are enough to be seen."""

from dataclasses import dataclass
from typing import Any

import pytest

from autotune.measurement import beside
from autotune.measurement.beside import with_cost
from autotune.workload.found import Denormals


@dataclass(frozen=True)
class Timing:
    """Turns that find a step 1.14 times as long, and whether they were taken."""

    taken: list[str]

    def surely_faster(self, *modes: Any, **_: Any) -> float:
        self.taken.extend(mode for mode in modes if isinstance(mode, str))
        return 1.14


@pytest.mark.parametrize(("coming", "cost"), [(8e-6, 1.0), (0.01, 1.14), (0.0, None)])
def test_a_few_of_many_averages_are_not_timed(
    monkeypatch: pytest.MonkeyPatch, coming: float, cost: float | None
) -> None:
    timing = Timing(taken=[])
    monkeypatch.setattr(beside, "surely_faster", timing.surely_faster)
    run: Any = None
    windows: Any = {}
    found = with_cost(Denormals(coming=coming), run, windows, seconds=1.0, cores=2)
    assert found is not None
    assert found.times_as_long == cost
    assert bool(timing.taken) is (cost == 1.14)
