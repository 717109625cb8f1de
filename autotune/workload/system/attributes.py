"""Attributes of classes and modules, put in and taken out again."""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

ABSENT: Any = object()


@contextmanager
def replaced(owner: Any, **others: Any) -> Iterator[None]:
    """An object, a module or a class has `others` as its own attributes meanwhile."""
    own = {name: vars(owner)[name] for name in others}
    _update(owner, others)
    try:
        yield
    finally:
        _update(owner, own)


def _update(owner: Any, values: Mapping[str, Any]) -> None:
    if not isinstance(owner, type):
        vars(owner).update(values)  # a DataLoader refuses `setattr()`
        return
    for name, value in values.items():
        setattr(owner, name, value)


def held(owner: Any) -> Any:
    """`owner`, or of a module a reference that does not keep it alive."""
    return weakref.ref(owner) if isinstance(owner, nn.Module) else owner


def owner_of(held: Any) -> Any:
    """What was `held`; None of a module that is gone."""
    return held() if isinstance(held, weakref.ref) else held


def put_back(owner: Any, name: str, original: Any) -> None:
    """Give `owner` what it had before a hook, which the hook of a module knows; what the program
    has put over that one stays.
    """
    if not isinstance(owner, nn.Module):
        put(owner, name, original)
        return
    hook: Any = vars(owner).get(name)
    if hasattr(hook, "autotune_original"):
        put(owner, name, hook.autotune_original)


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
