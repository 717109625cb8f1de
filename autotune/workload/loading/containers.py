"""What a batch consists of: the leaves of torch's trees, where containers of classes that torch
does not know (mappings of a library's, subclasses of its own ones, dataclasses) are opened too.
"""

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Mapping
from itertools import islice
from operator import itemgetter, setitem
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

IsLeaf = Callable[[Any], bool]
Build = Callable[[list[Any]], Any]
_only: Build = itemgetter(0)


def leaves(whole: object, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of `whole`, in order; what `is_leaf` says so of is one, whatever is inside."""
    found = []
    for leaf in pytree.tree_leaves(whole, is_leaf=is_leaf):
        opened = None if is_leaf is not None and is_leaf(leaf) else _opened(leaf)
        found += [leaf] if opened is None else leaves(opened[0], is_leaf)
    return found


def taken_apart(whole: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], Build]:
    """The leaves of `whole`, and what puts as many together again, in containers of their classes.
    One that cannot be filled anew is a leaf.
    """
    found, shape = pytree.tree_flatten(whole, is_leaf=is_leaf)
    inside: list[Any] = []
    parts: list[tuple[int, Build]] = []
    for leaf in found:
        opened = None if is_leaf is not None and is_leaf(leaf) else _opened(leaf)
        own, build = [leaf], _only
        if opened is not None and _can_be_filled(leaf, *opened):
            own, build = _inside(*opened, is_leaf)
        inside += own
        parts.append((len(own), build))

    def together(given: list[Any]) -> Any:
        rest = iter(given)
        return pytree.tree_unflatten([put(list(islice(rest, n))) for n, put in parts], shape)

    return inside, together


def changed(whole: Any, change: Callable[[Any], Any], is_leaf: IsLeaf | None = None) -> Any:
    """A copy of `whole` with what `change` makes of each leaf."""
    found, together = taken_apart(whole, is_leaf)
    return together([change(leaf) for leaf in found])


def attributes(leaf: Any) -> list[Any]:
    """What an object, a batch of a class of its own, has for data among its attributes: tensors,
    mappings, lists of tensors.
    """
    if isinstance(leaf, (nn.Module, type)) or not hasattr(leaf, "__dict__"):
        return []
    return [value for value in vars(leaf).values() if _is_data(value)]


def _is_data(value: object) -> bool:
    kind = type(value)
    if issubclass(kind, (list, tuple)):
        return bool(value) and isinstance(value[0], torch.Tensor)  # type: ignore[index]
    return issubclass(kind, (torch.Tensor, Mapping))


def _inside(values: list[Any], build: Build, is_leaf: IsLeaf | None) -> tuple[list[Any], Build]:
    own, together = taken_apart(values, is_leaf)
    return own, lambda given: build(together(given))


def _can_be_filled(container: Any, values: list[Any], build: Build) -> bool:
    try:
        if _shares_with_its_copy(container):
            return False
        build(values)
    except Exception:  # noqa: BLE001 - a class of any library's, or of the program's
        return False
    return True


def _shares_with_its_copy(container: Any) -> bool:
    """Whether what is put into a copy of a mapping is in the mapping itself as well: a class of the
    program's own that keeps a dict and is copied as any object is.
    """
    for name in container if issubclass(type(container), Mapping) else ():
        value, made = container[name], copy.copy(container)
        if (probe := copy.copy(value)) is value:
            continue
        with contextlib.suppress(Exception):  # it may have no items set; then it cannot be filled
            made[name] = probe
        if container[name] is probe:
            made[name] = value
            return True
        return False
    return False


def _opened(leaf: Any) -> tuple[list[Any], Build] | None:
    """What a container that torch takes for a leaf holds, and how it is filled; or None."""
    kind = type(leaf)  # one may stand in for an object that is gone
    if issubclass(kind, Mapping):
        if (held := _held(leaf)) is None:
            return None
        return list(held.values()), lambda given: _filled(leaf, list(held), given)
    if issubclass(kind, list) and kind is not list:
        return list(leaf), lambda given: _filled(leaf, [slice(None)], [given])
    if issubclass(kind, tuple) and kind is not tuple:
        return list(leaf), lambda given: kind(*given) if hasattr(kind, "_fields") else kind(given)
    if dataclasses.is_dataclass(kind):
        names = [each.name for each in dataclasses.fields(leaf) if hasattr(leaf, each.name)]
        values = [getattr(leaf, name) for name in names]
        # It may be frozen.
        return values, lambda given: _filled(leaf, names, given, object.__setattr__)
    return None


def _held(mapping: Any) -> dict[Any, Any] | None:
    """What a mapping holds; None of one that does not say. A class of dicts may take something else
    than its keys in `[]` (rows of the tensors that it holds).
    """
    with contextlib.suppress(Exception):  # a class of any library's, or of the program's
        return {name: mapping[name] for name in mapping}
    return dict(dict.items(mapping)) if issubclass(type(mapping), dict) else None


def _filled(container: Any, names: list[Any], values: list[Any], put: Any = setitem) -> Any:
    made = copy.copy(container)
    for name, value in zip(names, values, strict=True):
        put(made, name, value)
    return made
