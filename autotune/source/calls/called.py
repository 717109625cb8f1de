"""By which names a file has the models that training calls, in that file or in another."""

import ast
from collections.abc import Collection, Iterator

from autotune.source.edits import OutputPlace
from autotune.source.program import Program
from autotune.source.reach import argument_code
from autotune.source.script import Function, Script, covers, last_name, parameters


def called_models(program: Program, script: Script) -> set[str]:
    """The code by which `script` has the models that a step calls ("self.model"), by all names."""
    seen = program.places.outputs
    names = {each.callee for each in seen if each.path == script.path}
    for place in seen:
        names |= set(_handed_over(program, script, place))
    while more := _other_names(script, names) - names:
        names |= more
    return names


def _handed_over(program: Program, script: Script, place: OutputPlace) -> Iterator[str]:
    """What `script` gives to the function that calls its parameter at `place`."""
    other = program.scripts.get(place.path)
    root, dot, attributes = place.callee.partition(".")
    for function in other.nodes if other else ():
        if (
            isinstance(function, Function)
            and other is not None
            and covers(function, place.line)
            and root in parameters(function)
        ):
            for call in script.calls:
                if last_name(call.func) == function.name:
                    given = argument_code(call, other, function, root)
                    yield from [given + dot + attributes] if given else []


def _other_names(script: Script, names: Collection[str]) -> set[str]:
    """The variables that are given nothing but what has one of the `names`, or a DDP's `module`."""
    known = {*names, *(f"{name}.module" for name in names)}
    given: dict[str, set[str]] = {}
    for node in script.nodes:
        if isinstance(node, ast.Assign):
            for name in (at.id for at in node.targets if isinstance(at, ast.Name)):
                given.setdefault(name, set()).add(ast.unparse(node.value))
    return {name for name, values in given.items() if values <= known}
