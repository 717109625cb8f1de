"""Dataclasses as plain JSON data, and back by their type hints."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


class Mismatch(ValueError):
    """Plain data does not fit its type; the message begins with the place in the data."""


def plain(value: Any) -> Any:
    """`value` as what JSON can say.

    Dataclasses and mappings become dicts, sequences lists, nan and infinity None.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def build(expected: Any, data: Any, place: str) -> Any:
    """The value of type `expected` that `data` says; what `plain` wrote comes back equal.

    Keys that are not known are left out, so that a later version may add some; a None where a
    number must be is nan, since JSON has no other word for it. `place` names where `data` stands.

    Raises:
        Mismatch: `data` is not what the type says.
    """
    origin = get_origin(expected)
    if origin in (UnionType, Union):
        return _build_union(get_args(expected), data, place)
    if origin is tuple:
        return _build_tuple(get_args(expected), data, place)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        item = get_args(expected)[1]
        checked = _checked(dict, data, place)
        return {key: build(item, value, f"{place}.{key}") for key, value in checked.items()}
    if is_dataclass(expected):
        return _build_dataclass(expected, data, place)
    if isinstance(expected, type) and issubclass(expected, Enum):
        try:
            return expected(data)
        except ValueError:
            raise Mismatch(f"{place} is {data!r}, not one of {', '.join(expected)}") from None
    return _checked(expected, data, place)


def _build_dataclass(expected: Any, data: Any, place: str) -> Any:
    checked = _checked(dict, data, place)
    hints = _hints(expected)
    given: dict[str, Any] = {}
    for each in fields(expected):
        if each.name in checked:
            given[each.name] = build(hints[each.name], checked[each.name], f"{place}.{each.name}")
        elif _required(each):
            raise Mismatch(f"{place}.{each.name} is missing")
    return expected(**given)


def _build_tuple(items: tuple[Any, ...], data: Any, place: str) -> tuple[Any, ...]:
    checked = _checked(list, data, place)
    if len(items) == 2 and items[1] is Ellipsis:
        items = items[:1] * len(checked)
    elif len(items) != len(checked):
        raise Mismatch(f"{place} has {len(checked)} items, not {len(items)}")
    return tuple(
        build(item, value, f"{place}[{index}]")
        for index, (item, value) in enumerate(zip(items, checked, strict=True))
    )


def _build_union(members: tuple[Any, ...], data: Any, place: str) -> Any:
    if data is None and NoneType in members:
        return None
    others = [member for member in members if member is not NoneType]
    if len(others) == 1:
        return build(others[0], data, place)
    exact = [member for member in others if type(data) is member]
    if not exact:
        names = " or ".join(member.__name__ for member in others)
        raise Mismatch(f"{place} is {data!r}, not {names}")
    return data


def _checked(expected: Any, data: Any, place: str) -> Any:
    if expected is float and data is None:
        return math.nan
    if expected is float and type(data) is int:
        return float(data)
    if type(data) is not expected:
        raise Mismatch(f"{place} is {_shortened(data)}, not {expected.__name__}")
    return data


def _shortened(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache
def _hints(expected: type) -> dict[str, Any]:
    return get_type_hints(expected)


def _required(each: "Field[Any]") -> bool:
    return each.default is MISSING and each.default_factory is MISSING
