"""Floating point operations: which are counted, and which are said not to be."""

from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from autotune.workload.looks.counting import Counting, _multiplies


def test_operations_of_convolutions_are_told_from_products() -> None:
    layers = torch.nn.Sequential(
        torch.nn.Conv1d(4, 8, 1), torch.nn.Flatten(), torch.nn.Linear(8, 2)
    )
    watch = Counting()
    watch.begin()
    layers(torch.zeros(32, 4, 1)).sum().backward()
    found = watch.end()
    assert found.convolution_flops == 2 * 2 * 32 * 4 * 8  # forward, and for the weights
    assert found.flops == found.convolution_flops + 3 * 2 * 32 * 8 * 2
    assert (found.recomputed, found.unknown) == (False, ())


@pytest.mark.parametrize("reentrant", [False, True])
def test_activations_that_are_computed_again_are_noted(reentrant: bool) -> None:
    block = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    watch = Counting()
    watch.begin()
    inputs = torch.ones(2, 8, requires_grad=True)
    torch.relu(checkpoint(block, inputs, use_reentrant=reentrant)).sum().backward()
    assert watch.end().recomputed


# A layer of 3 to 5, both ways, with gates and biases: input, states, what is given and taken.
def recurrent(gates: int, *, packed: bool) -> tuple[Any, ...]:
    def of(*shape: int) -> torch.Tensor:
        return torch.empty(shape, device="meta")

    one_way = [of(gates * 5, 3), of(gates * 5, 5), of(gates * 5), of(gates * 5)]
    inputs = of(12, 3) if packed else of(4, 3, 3)
    states = of(2, 3, 5), of(2, 3, 5)
    sizes = [3, 3, 3, 3] if packed else []
    rest = (2, 5, 0, 1, False, 0.0, True, True, sizes, None)
    return inputs, 2 * one_way, 4, None, *states, *rest


@pytest.mark.parametrize(("gates", "packed"), [(4, False), (3, False), (1, True)])
def test_recurrent_layers_of_cudnn_are_counted(gates: int, packed: bool) -> None:
    watch = Counting()
    watch.begin()
    torch.ops.aten._cudnn_rnn(*recurrent(gates, packed=packed))
    found = watch.end()
    # Two ways, four times three rows, from the input and from the state before.
    assert found.flops == 2 * 2 * 12 * gates * 5 * (3 + 5)
    assert found.unknown == ()


def test_operators_that_multiply_and_have_no_formula_are_named() -> None:
    with torch.library._scoped_library("autotune_tests", "DEF") as library:
        library.define("attend(Tensor x) -> Tensor")
        library.impl("attend", torch.relu, "CompositeExplicitAutograd")
        watch = Counting()
        watch.begin()
        torch.ops.autotune_tests.attend(torch.ones(2, 2))
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
        torch.lgamma(torch.ones(2)).sum()
        found = watch.end()
    assert found.unknown[0] == "autotune_tests::attend"
    assert not any("lgamma" in name or name.endswith("::mm") for name in found.unknown)


@pytest.mark.parametrize(
    ("name", "multiplies"),
    [
        ("aten::_grouped_mm", True),
        ("aten::_cudnn_rnn_backward", True),
        ("aten::_cudnn_rnn_flatten_weight", False),
        ("aten::_thnn_fused_lstm_cell", False),
        ("aten::_convert_indices_from_csr_to_coo", False),
        ("aten::special_gammaln", False),
        ("aten::upsample_trilinear3d", False),
        ("torchvision::deform_conv2d", True),
        ("torchvision::roi_align", False),
        ("flash_attn::_flash_attn_forward", True),
        ("profiler::_record_function_enter_new", False),
    ],
)
def test_operators_are_told_by_their_names(name: str, multiplies: bool) -> None:
    assert _multiplies(name) is multiplies
