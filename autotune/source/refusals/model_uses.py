"""What a program does with its model besides training it: it exports it, or keeps what it gives."""

import ast
import re
from collections.abc import Collection

from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.refusals.gathering import SAME_MEMORY, kept_outcome, merged_outcome
from autotune.source.script import Function, Script, covers, given_to, last_name, names_in

_SAVING = "torch.save"
# What gives the model itself.
_ITSELF = frozenset(
    (
        *("module", "_orig_mod", "cpu", "cuda", "to", "eval", "train", "requires_grad_"),
        *("half", "float", "double", "bfloat16"),
    )
)
_OPTIONS = re.compile(
    r"(^|_)(args?|opts?|options|cfg|conf|config|flags|hparams|params)$", re.IGNORECASE
)


def handed_on(
    program: Program, optimizer: Call, model: ast.expr, names: Collection[str]
) -> Call | None:
    """The first call after `optimizer` by `names` that is given a model (torch.save: this one)."""
    made = {at.name for _, at in program.nodes() if isinstance(at, Function | ast.ClassDef)}
    for script, call in program.calls():
        given = given_to(call)[:1]
        name = {script.qualified(call.func), last_name(call.func)} & set(names)
        if not (given and name) or _is_earlier(script, call, optimizer):
            continue
        is_model = bool(names_in(given[0]) - made)
        if _SAVING in name:
            is_model = _holds(script, given[0], last_name(model))
        if is_model:
            return Call(script=script, node=call, what=name.pop())
    return None


def _holds(script: Script, given: ast.expr, model: str) -> bool:
    """Whether `given` has what goes by the name of `model`, and no part of it, or its weights."""
    for node in ast.walk(given):
        if isinstance(node, ast.Name | ast.Attribute) and last_name(node) == model != "":
            is_option = isinstance(node, ast.Attribute) and _OPTIONS.search(last_name(node.value))
            if not is_option and _gives_itself(script, node):
                return True
    return False


def _gives_itself(script: Script, model: ast.expr) -> bool:
    """Whether what stands round `model` comes to the model itself, as far as names tell."""
    part: ast.AST = model
    for above in script.ancestors(model):
        match above:
            case ast.Attribute(attr=name) if name not in _ITSELF:
                return False
            case ast.IfExp(test=test) if test is part:
                return False
            case ast.Attribute() | ast.Call() | ast.IfExp() | ast.Subscript():
                part = above
            case _:
                return not isinstance(above, ast.FormattedValue)
    return True


def _is_earlier(script: Script, call: ast.Call, optimizer: Call) -> bool:
    """Whether `call` stands before `optimizer` in one function."""
    beside = script is optimizer.script and script.function(call) is script.function(optimizer.node)
    return beside and call.lineno < optimizer.node.lineno


def merged(program: Program) -> str:
    """Where, outside of the training loop, a model's images are viewed with channels merged."""
    places = program.places.outputs
    names = {each.callee.rpartition(".")[2] for each in places if each.images}
    for script in program.scripts.values():
        calls = [
            call
            for call in script.calls
            if last_name(call.func) in names and not _is_trained(program, script, call)
        ]
        if found := merged_outcome(script, calls):
            return script.at(found)
    return ""


def _is_trained(program: Program, script: Script, call: ast.Call) -> bool:
    """Whether a run was seen to make `call`, and what it did with what that gave."""
    return any(
        place.path == script.path and covers(call, place.line) for place in program.places.outputs
    )


def kept(program: Program) -> str:
    """Where the program keeps, as it is, what a model gives that training calls."""
    names = {each.callee.rpartition(".")[2] for each in program.places.outputs}
    for script in program.scripts.values():
        calls = [call for call in script.calls if last_name(call.func) in names]
        if found := kept_outcome(script, calls, SAME_MEMORY):
            return script.at(found)
    return ""
