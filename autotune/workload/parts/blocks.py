"""The repeated blocks of a model: what activation checkpointing is worth wrapping round."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import nn

Each = TypeVar("Each")


def repeated_blocks(model: "nn.Module") -> tuple[str, ...]:
    """Qualified names of the model's repeated blocks, in order; empty where it has none.

    A block is an entry of a `Sequential` or `ModuleList` whose entries (two or more) are all of one
    class and have parameters and parts of their own: wrapping single layers saves nothing. A
    container inside another's blocks is left out, since what is inside a checkpoint is recomputed
    anyway.
    """
    from torch import nn

    names: list[str] = []
    containers: list[str] = []  # the outermost ones; "" is the model itself
    for container, module in model.named_modules():
        if any(not outer or container.startswith(f"{outer}.") for outer in containers):
            continue
        if isinstance(module, nn.Sequential | nn.ModuleList) and _repeats(module):
            containers.append(container)
            names += [f"{container}.{name}".lstrip(".") for name, _ in module.named_children()]
    return tuple(names)


def from_an_end(blocks: Sequence[Each], count: int) -> tuple[Each, ...]:
    """The first `count` of a model's blocks, or the last where `count` is negative."""
    return tuple(blocks[:count] if count >= 0 else blocks[count:])


def _repeats(container: "nn.Module") -> bool:
    entries = list(container.children())
    return (
        len(entries) >= 2
        and len({type(entry) for entry in entries}) == 1
        and all(any(True for _ in entry.children()) for entry in entries)
        and all(any(True for _ in entry.parameters()) for entry in entries)
    )
