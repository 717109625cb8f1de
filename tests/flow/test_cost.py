"""What an answer has cost: all trials that it rests on, and no waiting for others."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune import flow
from autotune.flow.context import Context
from autotune.flow.trying import Found
from autotune.measurement.ratios import Ratio
from autotune.outputs.report import render
from autotune.result import Cost
from autotune.trials.trial import NOTHING, Ending
from tests import builders

OWN = builders.trial(0, {}, 180.4)
EARLIER = replace(builders.trial(1, {"num_workers": 2}, 300.0), seconds=200.0)
BEST = replace(builders.trial(2, {"num_workers": 4}, 360.8), seconds=5.0)


def context(*, spent_seconds: float, waited_seconds: float) -> Context:
    given: dict[str, Any] = dict.fromkeys(("options", "listener", "machine", "bench"))
    given["target"] = SimpleNamespace(path="")
    device: Any = SimpleNamespace(waited_seconds=waited_seconds)
    return Context(**given, began=time.monotonic() - spent_seconds, device=device)


def cost(*earlier: Any, waited_seconds: float = 0.0) -> Cost:
    """Of a search of 40 s that found twice the speed."""
    found = Found(
        trials=(OWN, EARLIER, BEST),
        best=BEST,
        ending=Ending(why=NOTHING, reason=""),
        earlier=earlier,
    )
    twice = Ratio(estimate=2.0, low=1.9, high=2.1)
    verdict = builders.verdict(config=BEST.config, speedup=twice)
    spent = context(spent_seconds=40.0 + waited_seconds, waited_seconds=waited_seconds)
    return flow._cost(spent, builders.profile(), found, verdict)


def test_trials_of_a_search_that_was_interrupted_are_paid_for_too() -> None:
    alone, after = cost(), cost(EARLIER)
    assert alone.seconds == pytest.approx(40.0, abs=0.5)
    assert (alone.trials, alone.earlier_trials, alone.earlier_seconds) == (3, 0, 0.0)
    assert after.seconds == pytest.approx(240.0, abs=0.5)
    assert (after.trials, after.earlier_trials, after.earlier_seconds) == (3, 1, 200.0)
    assert alone.break_even_steps and after.break_even_steps
    assert after.break_even_steps == pytest.approx(6 * alone.break_even_steps, rel=0.02)


def test_waiting_for_another_search_to_leave_the_device_is_no_cost() -> None:
    waiting = cost(waited_seconds=500.0)
    assert waiting.seconds == pytest.approx(40.0, abs=0.5)
    assert waiting.break_even_steps == cost().break_even_steps


def test_the_page_says_what_was_spent_before() -> None:
    page = render(builders.search_result(cost=cost(EARLIER)))
    assert "1 trial of these were measured in an earlier search" in page
    assert "earlier search" not in render(builders.search_result(cost=cost()))
