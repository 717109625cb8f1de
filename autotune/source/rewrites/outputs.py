"""What models give, in float32: a loss of the program's own that bf16 would round."""

import ast

from autotune.source.edits import OutputPlace
from autotune.source.insertions import Snippet, defined_after_imports, imports_added, snippet
from autotune.source.program import Change, Program, wrapping
from autotune.source.script import Script, covers, last_name

_NAME, _SECOND_CHOICE = "in_float32", "outputs_in_float32"
_FUNCTION = """
def NAME(given):
    \"\"\"`given` with float32 for the bfloat16 that autocast gives.\"\"\"
    if isinstance(given, torch.Tensor):
        return given.float() if given.dtype == torch.bfloat16 else given
    if type(given) is dict or hasattr(given, "move_to_end"):  # or OrderedDict
        widened = given.copy()
        for name, part in given.items():
            widened[name] = NAME(part)
        return widened
    if isinstance(given, tuple) and hasattr(given, "_fields"):  # NamedTuple
        return type(given)(*map(NAME, given))
    if type(given) in (list, tuple):
        return type(given)(NAME(part) for part in given)
    return given
"""


def outputs_in_float32(program: Program) -> Program:
    """`program` with what its steps' calls of models give in float32, where that is tensors."""
    changes = [
        change for script in program.scripts.values() for change in _widened(program, script)
    ]
    return program.changed(changes)


def model_calls(program: Program, script: Script) -> list[ast.Call]:
    """The calls of models in `script` that a step was seen to make, and that give tensors."""
    calls = [call for call in script.nodes if isinstance(call, ast.Call)]
    return [call for call in calls if any(each.tensors for each in _given(program, script, call))]


def _given(program: Program, script: Script, call: ast.Call) -> list[OutputPlace]:
    """What `call` was seen to give, each kind of it."""
    return [
        place
        for place in program.places.outputs
        if place.path == script.path
        and covers(call, place.line)
        and ast.unparse(call.func) == place.callee
    ]


def _widened(program: Program, script: Script) -> list[Change]:
    calls = [each for each in model_calls(program, script) if not _is_float32(script, each)]
    plain = [
        call
        for call in calls
        if all(each.tensors and each.single for each in _given(program, script, call))
    ]
    ends = map(script.end, plain)
    changes = [Change(path=script.path, start=at, end=at, text=".float()") for at in ends]
    if not (found := [call for call in calls if call not in plain]):
        return changes
    name, made = _function(script)
    changes += [change for call in found for change in wrapping(script, call, f"{name}(", ")")]
    if not _defines(script, made):
        first = min(call.lineno for call in found)
        changes += imports_added(script, made.imports, until=first)
        changes.append(defined_after_imports(script, made.lines, until=first))
    return changes


def _is_float32(script: Script, call: ast.Call) -> bool:
    """Whether what `call` gives is made float32 already."""
    around = next(script.ancestors(call), None)
    inside = isinstance(around, ast.Call) and last_name(around.func) in (_NAME, _SECOND_CHOICE)
    return inside or (isinstance(around, ast.Attribute) and around.attr == "float")


def _function(script: Script) -> tuple[str, Snippet]:
    """The function and its name, which the file uses for nothing else."""
    free = script.free_name(_NAME, _SECOND_CHOICE)
    made = {
        name: snippet(script, _FUNCTION.replace("NAME", name))
        for name in (_NAME, _SECOND_CHOICE, free)
    }
    name = next((name for name in made if _defines(script, made[name])), free)
    return name, made[name]


def _defines(script: Script, made: Snippet) -> bool:
    (own,) = ast.parse(made.code).body
    return any(ast.dump(own) == ast.dump(at) for at in script.tree.body)
