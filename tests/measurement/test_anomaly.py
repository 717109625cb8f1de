"""The loop without torch's anomaly detection is timed beside the program as it is."""

import math

import pytest
import torch
from torch import nn

from autotune.workload.conversation import RunWindow
from autotune.workload.intercept import intercepted
from autotune.workload.setup import Setup
from autotune.workload.window import AS_IS, NO_ANOMALY
from tests.workload.programs import Rehearsed


def _trained(steps: int, *, within: bool) -> list[bool]:
    """Whether anomaly detection was on in the backward pass of each step."""
    model, found = nn.Linear(2, 1), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.weight.register_hook(lambda _grad: found.append(torch.is_anomaly_enabled()))
    if not within:
        torch.autograd.set_detect_anomaly(True)
    for _ in range(steps):
        optimizer.zero_grad()
        if within:
            with torch.autograd.detect_anomaly():
                model(torch.ones(3, 2)).sum().backward()
        else:
            model(torch.ones(3, 2)).sum().backward()
        optimizer.step()
    return found


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("within", [True, False])
def test_it_is_left_out_for_a_window_and_then_as_the_program_has_it(within: bool) -> None:
    original = torch.set_anomaly_enabled
    windows = [RunWindow(seconds=0.0, steps=4, mode=mode) for mode in (AS_IS, NO_ANOMALY, AS_IS)]
    try:
        with intercepted(Setup(), Rehearsed(*windows)) as live:
            found = _trained(12, within=within)
        assert set(found) == {True, False}
        first = found.index(False)
        last = len(found) - 1 - found[::-1].index(False)
        assert all(found[:first]) and all(found[last + 1 :]) and last + 1 < len(found)
        assert last - first == 3 and not any(found[first : last + 1])
        assert live.places["anomaly"].path == __file__
        assert torch.set_anomaly_enabled is original
    finally:
        torch.autograd.set_detect_anomaly(False)


def test_a_program_without_it_has_no_place() -> None:
    with intercepted(Setup(), Rehearsed(RunWindow(seconds=math.inf))) as live:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()
    assert "anomaly" not in live.places
