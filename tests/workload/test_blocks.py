"""Which parts of a model count as repeated blocks."""

import torch
from torch import nn

from autotune.workload.parts.blocks import from_an_end, repeated_blocks


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Block(), Block()])


def test_entries_of_a_container_are_blocks() -> None:
    model = nn.ModuleDict({"blocks": nn.ModuleList([Block(), Block(), Block()])})
    assert repeated_blocks(model) == ("blocks.0", "blocks.1", "blocks.2")


def test_a_model_can_be_the_container() -> None:
    assert repeated_blocks(nn.Sequential(Block(), Block())) == ("0", "1")


def test_only_the_outermost_container_counts() -> None:
    model = nn.ModuleDict({"stages": nn.ModuleList([Nested(), Nested()]), "tail": Nested()})
    assert repeated_blocks(model) == ("stages.0", "stages.1", "tail.parts.0", "tail.parts.1")


def test_a_name_that_begins_like_a_containers_is_another() -> None:
    stack, longer = nn.ModuleList([Block(), Block()]), nn.ModuleList([Block(), Block()])
    model = nn.ModuleDict({"layer": stack, "layer1": longer})
    assert repeated_blocks(model) == ("layer.0", "layer.1", "layer1.0", "layer1.1")


def test_blocks_are_counted_from_either_end() -> None:
    assert from_an_end("abc", 2) == ("a", "b")
    assert from_an_end("abc", -2) == ("b", "c")
    assert from_an_end("abc", 0) == ()
    assert from_an_end("abc", 9) == from_an_end("abc", -9) == ("a", "b", "c")


def test_single_layers_are_no_blocks() -> None:
    assert repeated_blocks(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))) == ()


def test_different_or_single_entries_are_no_blocks() -> None:
    assert repeated_blocks(nn.Sequential(Block(), nn.Sequential(Block()))) == ()
    assert repeated_blocks(nn.Sequential(Block())) == ()
