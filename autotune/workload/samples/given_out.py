"""What batches hold that the dataset keeps: a training that writes into it, writes into the
dataset, but into copies where workers send the batches.
"""

import gc
import inspect
from collections.abc import Iterator
from types import FrameType
from typing import Any

from autotune.source.refusals.settings import Setting
from autotune.workload.samples.asked import function_of, is_users_class, set_of_its_own
from autotune.workload.samples.delivery import GIVEN_OUT

_DEPTH, _MOST_LOOKED_AT, _MOST_ASKED = 3, 256, 4


def given_out(batch: object) -> tuple[Setting, ...]:
    """The attributes of the user's objects in `batch`, and the items of its dicts, that something
    else holds too, under the names by which a program sets them.

    Only the first few of such objects are looked at: samples are alike.
    """
    inside, holders = _inside(batch)
    settings = dict[Setting, None]()
    for value in inside:
        if _is_kept(value, {id(inside), *holders}):
            settings |= dict.fromkeys(_parts(value))
    return tuple(settings)


def _inside(batch: object) -> tuple[list[Any], set[int]]:
    """The first of the dicts and of the user's objects in `batch`, and by their ids all that holds
    something in it.
    """
    waiting, found, holders = [(batch, 0)], list[Any](), {id(batch)}
    while waiting and len(holders) < _MOST_LOOKED_AT:
        value, depth = waiting.pop(0)
        own = vars(value) if is_users_class(type(value)) and hasattr(value, "__dict__") else None
        if len(found) < _MOST_ASKED and (own is not None or isinstance(value, dict)):
            found.append(value)
        holders |= {id(value), id(own)}
        if depth < _DEPTH and (own is not None or isinstance(value, (list, tuple, dict))):
            held: Any = own if own is not None else value
            items = held.values() if isinstance(held, dict) else held
            waiting += [(each, depth + 1) for each in items]
    return found, holders


def _is_kept(value: object, holders: set[int]) -> bool:
    """Whether anything holds `value` but what is among `holders`, and what runs."""
    for each in gc.get_referrers(value):
        if id(each) not in holders and not isinstance(each, FrameType):
            return True
    return False


def _parts(value: Any) -> Iterator[Setting]:
    kind = type(value)
    if isinstance(value, dict):
        for key in value:
            if isinstance(key, str):
                yield Setting(path=f"{GIVEN_OUT}[{key!r}]", name=key)
        return
    kinds = tuple(each.__name__ for each in kind.__mro__ if is_users_class(each))
    methods = (function_of(each) for base in kind.__mro__ for each in vars(base).values())
    set_by_methods = (set_of_its_own(each.__code__) for each in methods if each)
    slots = {name for base in kind.__mro__ for name in getattr(base, "__slots__", ())}
    for name in sorted({*getattr(value, "__dict__", {}), *slots}.union(*set_by_methods)):
        inner = inspect.getattr_static(value, name, None)
        for inside in (False, True) if hasattr(inner, "__len__") else (False,):
            path = f"{GIVEN_OUT}.{kind.__name__}.{name}"
            yield Setting(path=path, name=name, kinds=kinds, inside=inside)
