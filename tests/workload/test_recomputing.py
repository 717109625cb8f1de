"""Blocks that compute their activations again do so with the same random numbers."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import checkpoint as torchs

from autotune.knobs import by_name
from autotune.source.edits import ModelStatement
from autotune.workload.inspect import describe_model
from autotune.workload.parts.recomputing import recomputed
from tests.knobs.profiles import on_a_gpu


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout = nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor, twice: bool = False) -> torch.Tensor:
        out: torch.Tensor = self.dropout(torch.tanh(self.layer(x))) * mask
        return out * 2 if twice else out


def of_a_patch() -> Any:
    """The function that a patched program has."""
    (edit,) = by_name("checkpointing").edits(2, on_a_gpu().seen)
    assert isinstance(edit, ModelStatement)
    names: dict[str, Any] = {}
    exec("\n".join([*edit.imports, edit.function]), names)
    return names["recomputed"]


either = pytest.mark.parametrize("function", [recomputed, of_a_patch()], ids=["here", "patch"])


@either
def test_torch_is_shown_every_tensor_for_its_device(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    inferred = torchs._infer_device_type
    monkeypatch.setattr(
        torchs, "_infer_device_type", lambda *args: shown.extend(args) or inferred(*args)
    )
    x, mask = torch.randn(2, 4), torch.ones(2, 4)
    function(Block(), x=x, mask=mask)
    assert any(each is x for each in shown)
    assert any(each is mask for each in shown)


@either
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_those_of_a_block_that_keeps_all(
    function: Callable[..., Any], compiled: bool
) -> None:
    x, mask = torch.randn(2, 4), torch.ones(2, 4)

    def gradient(block: nn.Module) -> Any:
        torch.manual_seed(0)
        call = torch.compile(block, backend="aot_eager", fullgraph=True) if compiled else block
        call(x, mask=mask, twice=True).sum().backward()
        return block.get_parameter("layer.weight").grad

    own = Block()
    again = Block()
    again.load_state_dict(own.state_dict())
    again.forward = functools.partial(function, again.forward)  # type: ignore[method-assign]
    assert torch.equal(gradient(own), gradient(again))


@either
def test_it_is_seen_in_a_model(function: Callable[..., Any]) -> None:
    model = nn.Sequential(Block(), Block())
    model[0].forward = functools.partial(function, model[0].forward)
    assert describe_model(model).checkpointed == 1
    model[0].forward = functools.partial(Block.forward, model[0])
    assert describe_model(model).checkpointed == 0
