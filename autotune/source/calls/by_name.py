"""Attributes and variables that are set by their names as texts."""

import ast
import re
from collections.abc import Collection, Iterator

from autotune.source.calls.writes import keys_set
from autotune.source.script import given_to

# Whose attribute or variable it is, where that is told, and its name, where only a run knows it.
Named = tuple[ast.expr | None, str | None]

_SETTERS = frozenset(("setattr", "delattr"))
_OWN_SETTERS = frozenset(("__setattr__", "__delattr__"))
_SET_IN_TEXT = re.compile(r"(\w+)\s*[-+*/|&]?=(?!=)")


def set_by_name(node: ast.AST) -> Iterator[Named]:
    """What `node` sets by its name: `setattr(table, "level", ...)`, `vars(table)["level"] = ...`,
    `globals()["LEVEL"] = ...`, `exec("table.level = ...")`, and what it leaves with others to be
    set: `partial(setattr, table, "level")`.
    """
    match node:
        case ast.Call(func=ast.Name(id=setter), args=[owner, name, *_]) if setter in _SETTERS:
            yield owner, _text(name)
        case ast.Call(func=ast.Attribute(attr=setter, value=owner), args=given) if (
            setter in _OWN_SETTERS and given
        ):
            of_class = isinstance(owner, ast.Name) and owner.id == "object"
            owner, *told = given if of_class else (owner, *given)
            yield owner, _text(told[0]) if told else None
        case ast.Call(func=ast.Name(id="exec"), args=[ast.Constant(value=str(text)), *_]):
            yield from ((None, name) for name in _SET_IN_TEXT.findall(text))
        case ast.Call(func=ast.Attribute(attr="update", value=table)):
            yield from _items_of(table, node)
        case ast.Call():
            yield from _left_to_set(node)
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            whole = (each.value for each in targets if isinstance(each, ast.Subscript))
            yield from (named for table in whole for named in _items_of(table, node))
        case ast.AugAssign(target=ast.Subscript(value=table) | table):
            yield from _items_of(table, node)


def _left_to_set(call: ast.Call) -> Iterator[Named]:
    handed = given_to(call)
    if any(isinstance(each, ast.Name) and each.id in _SETTERS for each in handed):
        constants = (at for each in handed for at in ast.walk(each) if isinstance(at, ast.Constant))
        yield from ((None, at.value) for at in constants if isinstance(at.value, str))


def _items_of(table: ast.expr, node: ast.AST) -> Iterator[Named]:
    """What `node` sets in `vars(owner)`, `owner.__dict__` or `globals()`."""
    match table:
        case ast.Call(func=ast.Name(id="vars"), args=[owner]):
            pass
        case ast.Attribute(attr="__dict__", value=owner):
            pass
        case ast.Call(func=ast.Name(id="globals")):
            owner = table
        case _:
            return
    names = keys_set(node)
    yield from ((owner, str(name)) for name in names or ())
    if names is None:
        yield owner, None


def _text(name: ast.expr) -> str | None:
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def is_module(owner: ast.expr, imports: Collection[str]) -> bool:
    """Whether it is a module: imported, `sys.modules[...]`, or this one's `globals()`."""
    match owner:
        case ast.Name(id=name):
            return name in imports
        case ast.Subscript(value=ast.Attribute(attr="modules")):
            return True
        case ast.Call(func=ast.Name(id="globals")):
            return True
    return False
