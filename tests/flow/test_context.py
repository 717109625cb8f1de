"""How the budget is shared."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import Options
from autotune.flow.context import Context
from tests import builders


@pytest.mark.parametrize(("faults", "kept"), [(None, 54.0), (50_000, 54.0), (400_000, 72.0)])
def test_where_one_pair_of_processes_tells_nothing_more_is_kept_for_a_second(
    faults: int | None, kept: float
) -> None:
    given: dict[str, Any] = dict.fromkeys(("target", "listener", "machine", "bench"))
    device: Any = SimpleNamespace(waited_seconds=0.0)
    began, options = time.monotonic(), Options(budget_seconds=120.0)
    context = Context(**given, options=options, began=began, device=device)
    profiled = [builders.window(seconds=2.0, page_faults=faults)]
    drained = builders.window(mode="drained", seconds=2.0, page_faults=4_000_000)
    deadlines = context.judging([*profiled, drained])
    assert deadlines.deadline - deadlines.trials_deadline == pytest.approx(kept)
    compiling = deadlines.compiling_deadline - deadlines.trials_deadline
    assert compiling == pytest.approx(kept / 4), "what still compiles leaves time to judge"
