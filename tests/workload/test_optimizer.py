"""Choosing an optimizer's implementation after it was built is choosing it as it is built."""

import importlib
from typing import Any
from unittest.mock import patch

import pytest
import torch

from autotune.errors import UsageError
from autotune.workload.parts.optimizer import set_implementation

OPTIMIZERS = [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad]


def parameters() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(5)) for _ in range(3)]


def train(optimizer: torch.optim.Optimizer, steps: int = 3) -> torch.Tensor:
    weights = optimizer.param_groups[0]["params"]
    for _ in range(steps):
        optimizer.zero_grad()
        sum(weight.square().sum() for weight in weights).backward()
        optimizer.step()
    return torch.cat([weight.detach() for weight in weights])


def kernel(kind: Any, implementation: str) -> Any:
    """Watches one of torch's implementations."""
    name = (
        "adam" if issubclass(kind, torch.optim.Adam) else kind.__name__.lower()
    )  # AdamW is none in 2.6
    module = importlib.import_module(f"torch.optim.{name}")
    function = f"_{implementation}_{name}"
    return patch.object(module, function, wraps=getattr(module, function))


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(
    ("settings", "implementation"),
    [
        ({"fused": True}, "fused"),
        ({"foreach": True}, "multi_tensor"),
        ({"foreach": False}, "single_tensor"),
        ({"fused": True, "foreach": False}, "fused"),
    ],
)
def test_it_runs_what_was_chosen_and_learns_the_same(
    kind: Any, settings: dict[str, Any], implementation: str
) -> None:
    expected = train(kind(parameters(), lr=0.1, **settings))
    optimizer = kind(parameters(), lr=0.1)
    set_implementation(optimizer, **settings)

    with kernel(kind, implementation) as ran:
        assert torch.equal(train(optimizer), expected)

    assert ran.call_count == 3


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_switching_in_the_middle_keeps_the_state(kind: Any) -> None:
    expected = train(kind(parameters(), lr=0.1), steps=6)
    optimizer = kind(parameters(), lr=0.1)

    for settings in ({"fused": True}, {"foreach": True}, {"fused": True}):
        set_implementation(optimizer, **settings)  # type: ignore[arg-type]
        learned = train(optimizer, steps=2)

    torch.testing.assert_close(learned, expected)
    group = optimizer.param_groups[0]
    assert (group["fused"], group["foreach"]) == (True, False)


def test_a_fused_optimizer_unscales_by_itself() -> None:
    optimizer = torch.optim.AdamW(parameters())
    set_implementation(optimizer, fused=True)

    assert optimizer._step_supports_amp_scaling  # what GradScaler asks


def test_nothing_asked_is_nothing_changed() -> None:
    optimizer = torch.optim.AdamW(parameters())
    before = dict(optimizer.defaults)

    set_implementation(optimizer)

    assert optimizer.defaults == before


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="LBFGS has no fused implementation"):
        set_implementation(torch.optim.LBFGS(parameters()), fused=True)
    with pytest.raises(UsageError, match="at once"):
        set_implementation(torch.optim.SGD(parameters()), fused=True, foreach=True)
