"""What knobs ask of a program's source, where it depends on what was seen of it."""

from typing import Any

import pytest
import torch
from torch import nn

from autotune.knobs import by_name
from autotune.source.edits import Accumulate, ModelStatement, ProcessStatement
from tests.knobs.profiles import on_a_cpu, on_a_gpu, with_loader, with_model, without_a_loader


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_a_model_is_exported_after_what_the_patch_says_takes_recomputing_back() -> None:
    seen = with_model(on_a_gpu(), blocks=("0", "1", "2")).seen
    (edit,) = by_name("checkpointing").edits(2, seen)
    assert isinstance(edit, ModelStatement)
    names: dict[str, Any] = {"model": nn.Sequential(Block(), Block(), Block())}
    exec("\n".join([*edit.imports, edit.function, edit.code.format(model="model")]), names)
    assert [("forward" in vars(block)) for block in names["model"]] == [True, True, False]
    with pytest.raises(AttributeError, match="partial"):
        torch.jit.script(names["model"])
    exec(edit.undone.format(model="model"), names)
    torch.jit.script(names["model"])


def test_what_recomputes_leaves_the_name_checkpoint_to_the_program() -> None:
    (edit,) = by_name("checkpointing").edits(2, with_model(on_a_gpu(), blocks=("0", "1")).seen)
    assert isinstance(edit, ModelStatement)
    names: dict[str, Any] = {"checkpoint": "last.pt"}
    exec("\n".join([*edit.imports, edit.function]), names)
    assert names["checkpoint"] == "last.pt"
    assert names["recomputed"](torch.tanh, torch.zeros(2)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("profile", "shared", "drop_last"),
    [
        (on_a_cpu(), False, False),
        (with_loader(on_a_cpu(), shared_place=True), True, False),
        (with_loader(on_a_cpu(), drop_last=True), False, True),
        (without_a_loader(), False, None),
    ],
)
def test_micro_batches_know_how_the_loader_was_seen_to_be_built(
    profile: Any, shared: bool, drop_last: bool | None
) -> None:
    knob = by_name("micro_batches")
    expected = Accumulate(steps=2, shared=shared, drop_last=drop_last)
    assert knob.edits(2, profile.seen) == (expected,)
    assert knob.edits(1, profile.seen) == ()


def test_the_patch_says_beside_its_import_what_a_package_is_for() -> None:
    edit, _ = by_name("blas_threads").edits(1, on_a_cpu().seen)
    assert isinstance(edit, ProcessStatement)
    (line,) = edit.imports
    assert line.startswith("import threadpoolctl  # NumPy's threads; pip install")
