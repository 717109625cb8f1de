"""What stands in a file under each name: of many files rule after rule asks for a few places."""

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from autotune.source.program import Program
from autotune.source.script import Function, Script, last_name

_Node = TypeVar("_Node", bound=ast.AST)
_KEPT = 4096  # files, as they are and as they were changed


@functools.lru_cache(maxsize=_KEPT)
def functions_by_name(script: Script) -> Mapping[str, Sequence[Function]]:
    """The functions and methods that `script` defines."""
    functions = (node for node in script.nodes if isinstance(node, Function))
    return _by(functions, lambda function: function.name)


@functools.lru_cache(maxsize=_KEPT)
def calls_by_name(script: Script) -> Mapping[str, Sequence[ast.Call]]:
    """The calls in `script`, by the last name of what they call."""
    return _by(script.calls, lambda call: last_name(call.func))


def calls_named(program: Program, name: str) -> Iterator[tuple[Script, ast.Call]]:
    """The calls of that name in all files of `program`, each with its file."""
    for script in program.scripts.values():
        for call in calls_by_name(script).get(name, ()):
            yield script, call


def option_defaults(program: Program, name: str) -> Iterator[tuple[Script, ast.expr]]:
    """What the option that becomes the attribute `name` is where it is not given (argparse)."""
    for script, call in calls_named(program, "add_argument"):
        if any(ast.unparse(each).strip("\"'-").replace("-", "_") == name for each in call.args):
            yield from ((script, at.value) for at in call.keywords if at.arg == "default")


@functools.lru_cache(maxsize=_KEPT)
def attributes_by_name(script: Script) -> Mapping[str, Sequence[ast.Attribute]]:
    """The attributes that `script` reads or sets, of whatever object."""
    attributes = (node for node in script.nodes if isinstance(node, ast.Attribute))
    return _by(attributes, lambda attribute: attribute.attr)


@functools.lru_cache(maxsize=_KEPT)
def values_by_name(script: Script) -> Mapping[str, Sequence[ast.expr]]:
    """What `script` assigns to variables and attributes, by their last names."""
    found: dict[str, list[ast.expr]] = {}
    for node in script.nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    found.setdefault(last_name(target), []).append(value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                found.setdefault(last_name(target), []).append(value)
    return found


def _by(nodes: Iterable[_Node], name: Callable[[_Node], str]) -> Mapping[str, Sequence[_Node]]:
    found: dict[str, list[_Node]] = {}
    for node in nodes:
        found.setdefault(name(node), []).append(node)
    return found
