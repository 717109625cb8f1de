"""Attributes of classes and modules, put in and taken out again."""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

_ABSENT: Any = object()
Chosen = Callable[[Any, str], bool]


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


class Patches:
    """Attributes of classes and modules in the place of which others were put. Modules are not kept
    alive: what one had there itself, compiled code, would do so, and its hook has that.
    """

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any]] = []  # what refers to the owner, what it had

    def __bool__(self) -> bool:
        return bool(self._made)

    def put(self, owner: Any, name: str, replacement: Any) -> None:
        """Put `replacement` in the place of `owner.name`."""
        original, held = vars(owner).get(name, _ABSENT), owner
        if isinstance(owner, nn.Module):
            replacement.autotune_original, original = original, None
            held = weakref.ref(owner)
        self._made.append((held, name, original))
        _put(owner, name, replacement)

    def take_out(self, chosen: Chosen) -> None:
        """Give what was `chosen` back, by its owner and its name, the newest first."""
        for held, name, original in reversed(self._made):
            owner = _owner_of(held)
            if owner is not None and chosen(owner, name):
                _put_back(owner, name, original)
        self.forget(chosen)

    def forget(self, chosen: Chosen) -> None:
        """What was `chosen` stays for good. Modules that are gone are forgotten too."""
        owners = ((_owner_of(each[0]), each) for each in self._made)
        self._made = [at for own, at in owners if own is not None and not chosen(own, at[1])]

    def forget_gone(self) -> None:
        """Nothing is given back to modules that are gone."""
        self._made = [each for each in self._made if _owner_of(each[0]) is not None]


def _owner_of(held: Any) -> Any:
    return held() if isinstance(held, weakref.ref) else held


def _put_back(owner: Any, name: str, original: Any) -> None:
    """Give `owner` what it had before a hook, which the hook of a module knows; what the program
    has put over that one stays.
    """
    if not isinstance(owner, nn.Module):
        _put(owner, name, original)
        return
    hook: Any = vars(owner).get(name)
    if hasattr(hook, "autotune_original"):
        _put(owner, name, hook.autotune_original)


def _put(owner: Any, name: str, value: Any) -> None:
    """Give `owner` an attribute, or take it away; a module has its own in its `__dict__`.

    A module that `torch.compile` made hands `setattr` on to the module inside it.
    """
    if isinstance(owner, nn.Module):
        vars(owner).update({name: value})
        if value is _ABSENT:
            del vars(owner)[name]
    elif value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
