"""Attributes of classes and modules, put in and taken out again."""

from typing import Any

from torch import nn

ABSENT: Any = object()


def put(owner: Any, name: str, value: Any) -> None:
    """Give `owner` an attribute, or take it away; a module has its own in its `__dict__`.

    A module that `torch.compile` made hands `setattr` on to the module inside it.
    """
    if isinstance(owner, nn.Module):
        vars(owner).update({name: value})
        if value is ABSENT:
            del vars(owner)[name]
    elif value is ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
