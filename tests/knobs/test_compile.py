"""The code that runs for full batches is the same before and after a short one."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from autotune.knobs import by_name
from autotune.source.edits import ModelStatement
from autotune.workload.setup import Setup
from tests.knobs.profiles import on_a_cpu

SIZES = (32, 32, 7, 32, 7, 32)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


def here(model: nn.Module) -> None:
    setup = Setup()
    by_name("compile").apply(setup, "default")
    setup.model[0](model)


def in_a_patch(model: nn.Module) -> None:
    (edit,) = by_name("compile").edits("default", on_a_cpu().seen)
    assert isinstance(edit, ModelStatement)
    exec(edit.code.format(model="model"), {"model": model})


@pytest.mark.parametrize("compiled", [here, in_a_patch])
def test_a_short_batch_has_code_of_its_own(
    compiled: Callable[[nn.Module], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, ran = [], []

    def backend(graph: Any, inputs: Any) -> Any:
        number = len(made)
        made.append(graph)
        return lambda *given: ran.append(number) or graph(*given)

    own = torch.compile

    def with_backend(*args: Any, mode: str = "", **kwargs: Any) -> Any:
        return own(*args, backend=backend, **kwargs)

    monkeypatch.setattr(torch, "compile", with_backend)
    torch.compiler.reset()
    model = Net()
    compiled(model)
    for size in SIZES:
        model(torch.randn(size, 4)).sum().backward()
    assert ran == [0, 0, 1, 0, 1, 0]


@pytest.mark.filterwarnings("ignore:.torch.jit.trace:DeprecationWarning")
def test_a_model_is_exported_after_what_the_patch_says_takes_compiling_back() -> None:
    (edit,) = by_name("compile").edits("default", on_a_cpu().seen)
    assert isinstance(edit, ModelStatement)
    model = Net()
    exec(edit.code.format(model="model"), {"model": model})
    x = torch.randn(2, 4)
    with pytest.raises(RuntimeError, match="dynamo-optimized"):
        torch.jit.trace(model, x)
    exec(edit.undone.format(model="model"), {"model": model})
    assert torch.equal(torch.jit.trace(model, x)(x), model(x))


@pytest.mark.parametrize(
    ("mode", "replayed"), [("default", False), ("reduce-overhead", True), ("max-autotune", True)]
)
def test_modes_that_record_graphs_overwrite_what_the_model_gave(mode: str, replayed: bool) -> None:
    (edit,) = by_name("compile").edits(mode, on_a_cpu().seen)
    assert isinstance(edit, ModelStatement)
    assert edit.replayed is replayed
