"""What the `**` arguments of a call may hold, as far as their dicts can be seen to be made."""

import ast

from autotune.source.calls.keywords import display_of, spreads_of
from autotune.source.places import Call
from autotune.source.script import Script, last_name

# Methods that leave a dict as it is, or take something out of it.
_ASKING = ("copy", "get", "items", "keys", "pop", "values")
_TAKING = ("dict", "len", "print", "update")  # what it may be given to all the same


def may_hide(call: Call, name: str) -> bool:
    """Whether `**` arguments of `call` may hold `name` where none can be seen to."""
    return any(_may_hold(call.script, spread, name, ()) for spread in spreads_of(call))


def holder_of(call: Call, name: str) -> str:
    """The one variable from which the `**` of `call` may have `name`; "" for none or several."""
    shown = [display_of(call.script, spread) or spread for spread in spreads_of(call)]
    parts = [part for each in shown for part in _spread_in(each)]
    held = not all(_lacks(each, name) for each in shown if isinstance(each, ast.Dict))
    one = parts[0] if len(parts) == 1 and not held else None
    return one.id if isinstance(one, ast.Name) else ""


def _spread_in(value: ast.expr) -> list[ast.expr]:
    """What the dict display `value` takes entries from by `**`; `value` itself if it is none."""
    if not isinstance(value, ast.Dict):
        return [value]
    pairs = zip(value.keys, value.values, strict=True)
    return [each for key, given in pairs if key is None for each in _spread_in(given)]


def _lacks(display: ast.Dict, name: str) -> bool:
    """Whether no key of `display`, but for what it takes by `**`, is `name`."""
    keys = [key for at in ast.walk(display) if isinstance(at, ast.Dict) for key in at.keys if key]
    return all(isinstance(key, ast.Constant) and key.value != name for key in keys)


def _may_hold(script: Script, value: ast.expr, name: str, asked: tuple[str, ...]) -> bool:
    """Whether the dict `value` may have the key `name`, by other variables than those `asked`."""
    parts: list[ast.expr]
    match value:
        case ast.Name(id=variable):
            return variable not in asked and _variable_may_hold(script, value, name, asked)
        case ast.Dict() if _lacks(value, name):
            parts = _spread_in(value)
        case ast.Call(func=ast.Name(id="dict")) if all(at.arg != name for at in value.keywords):
            parts = [*value.args, *(at.value for at in value.keywords if at.arg is None)]
        case ast.Call(func=ast.Attribute(value=whole, attr="copy"), args=[], keywords=[]):
            parts = [whole]
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, op=ast.BitOr(), right=other):
            parts = [one, other]
        case _:
            return True
    return any(_may_hold(script, part, name, asked) for part in parts)


def _variable_may_hold(
    script: Script, variable: ast.Name, name: str, asked: tuple[str, ...]
) -> bool:
    """Whether what `variable` is given, or changed by, may have the key `name`."""
    uses = _uses(script, variable)
    given = [_given_by(script, use) for use in uses]
    if None in given or not any(isinstance(use.ctx, ast.Store) for use in uses):
        return True
    parts = [part for each in given for part in each or ()]
    return any(_may_hold(script, part, name, (*asked, variable.id)) for part in parts)


def _uses(script: Script, variable: ast.Name) -> list[ast.Name]:
    """Where the file has `variable`, of the same scope; nothing where it is a parameter."""
    nodes = list(script.nodes)
    named = [at for at in nodes if isinstance(at, ast.Name) and at.id == variable.id]
    taken = {
        script.function(at) for at in nodes if isinstance(at, ast.arg) and at.arg == variable.id
    }
    own = {script.function(at) for at in named if isinstance(at.ctx, ast.Store)} | taken
    function = script.function(variable)
    within = function if function in own else None
    if within in taken:
        return []
    if within is not None:
        return [at for at in named if within in script.ancestors(at)]
    return [at for at in named if script.function(at) is None or script.function(at) not in own]


def _given_by(script: Script, use: ast.Name) -> list[ast.expr] | None:
    """The dicts whose entries a variable gets where it stands as `use`, None if it may get any."""
    above = script.ancestors(use)
    parent, outer = next(above), next(above, None)
    match parent:
        case (
            ast.Assign(value=value)
            | ast.AnnAssign(value=ast.expr() as value)
            | ast.AugAssign(op=ast.BitOr(), value=value)
        ) if value is not use:
            return [value]
        case ast.Subscript(slice=key, ctx=ast.Store()):
            return [ast.Dict(keys=[key], values=[use])]
        case ast.Attribute(attr="update") if isinstance(outer, ast.Call):
            return _keywords(outer) + outer.args
        case ast.Attribute(attr="setdefault") if isinstance(outer, ast.Call):
            return [ast.Dict(keys=[*outer.args[:1]], values=[use])]
    return [] if _only_reads(parent, use) else None


def _keywords(call: ast.Call) -> list[ast.expr]:
    """The named arguments of `call` as dicts."""
    named = [(at.arg, at.value) for at in call.keywords]
    return [ast.Dict(keys=[ast.Constant(key)], values=[at]) if key else at for key, at in named]


def _only_reads(parent: ast.AST, use: ast.Name) -> bool:
    """Whether a dict that stands as `use` in `parent` is not changed there, nor by another name."""
    match parent:
        case ast.Dict(keys=keys, values=values):
            return any(at is use and key is None for key, at in zip(keys, values, strict=True))
        case (
            ast.keyword(arg=None)
            | ast.Subscript()
            | ast.Compare()
            | ast.FormattedValue()
            | ast.AugAssign(op=ast.BitOr())
            | ast.BinOp(op=ast.BitOr())
        ):
            return True
        case ast.Attribute(attr=method):
            return method in _ASKING
        case ast.Call(func=function):
            return last_name(function) in _TAKING
    return False
