"""What models give, in float32: a loss of the program's own that bf16 would round."""

import ast

from autotune.source.edits import OutputPlace
from autotune.source.program import Change, Program
from autotune.source.script import Script


def outputs_in_float32(program: Program) -> Program:
    """`program` with `.float()` behind its calls of models; what they give is several tensors where
    the call is unpacked. A call in another form keeps what it gives as it is.
    """
    changes = [change for place in program.places.outputs for change in _widened(program, place)]
    return program.changed(dict.fromkeys(changes))


def _widened(program: Program, place: OutputPlace) -> list[Change]:
    script = program.scripts.get(place.path)
    if script is None or place.parts < 0 or not _is_sure(program, place):
        return []
    calls = [
        at
        for at in ast.walk(script.tree)
        if isinstance(at, ast.Call)
        and at.lineno <= place.line <= (at.end_lineno or at.lineno)
        and ast.unparse(at.func) == place.callee
    ]
    return [change for call in calls for change in _changes(script, call, place.parts)]


def _is_sure(program: Program, place: OutputPlace) -> bool:
    """Whether the line's call always gave as many tensors."""
    same = (place.path, place.line, place.callee)
    return all(
        other.parts == place.parts
        for other in program.places.outputs
        if (other.path, other.line, other.callee) == same
    )


def _changes(script: Script, call: ast.Call, parts: int) -> list[Change]:
    around = next(script.ancestors(call), None)
    if isinstance(around, ast.Attribute) and around.attr == "float":
        return []
    if not parts:
        return [_inserted(script, script.end(call), ".float()")]
    if isinstance(around, ast.Assign) and around.value is call and _unpacks(around, parts):
        return [
            _inserted(script, script.start(call), "(each.float() for each in "),
            _inserted(script, script.end(call), ")"),
        ]
    return []


def _unpacks(statement: ast.Assign, parts: int) -> bool:
    targets = statement.targets
    names = targets[0].elts if isinstance(targets[0], ast.Tuple | ast.List) else []
    starred = any(isinstance(name, ast.Starred) for name in names)
    return len(targets) == 1 and len(names) == parts and not starred


def _inserted(script: Script, at: int, text: str) -> Change:
    return Change(path=script.path, start=at, end=at, text=text)
