"""Averages of gradients in a checkpoint, which a fused optimizer reads as the weights lie."""

import ast
from collections.abc import Sequence

from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.refusals.loads import loads_of


def mixed_up(program: Program, built: Sequence[Call]) -> str:
    """Why weights of optimizers `built` so, and fused, cannot be channels last; "" if they can."""
    for load in loads_of(program, built):
        return (
            f"an optimizer is given a state ({ast.unparse(load.node.func)}), whose averages may "
            "lie in the usual order: a fused one goes through them and through weights that are "
            "channels last as they lie in memory, and would mix up which is whose"
        )
    return ""


def is_any_fused(program: Program) -> bool:
    """Whether `program` asks for a fused optimizer."""
    return any(
        isinstance(node, ast.keyword)
        and node.arg == "fused"
        and not (isinstance(node.value, ast.Constant) and not node.value.value)
        for _, node in program.nodes()
    )


def is_any_reordered(program: Program) -> bool:
    """Whether `program` has something channels last."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "channels_last"
        for _, node in program.nodes()
    )
