"""The condition under which what a block computes is trained on, and not only evaluated."""

import ast
from collections.abc import Iterator

from autotune.source.calls.keywords import ATOMS
from autotune.source.loops.loss import BACKWARDS, GATHERING
from autotune.source.places import Call
from autotune.source.reach import calls_in
from autotune.source.script import Script, last_name, straight

# What comes out the same when it is asked a second time.
# fmt: off
_ASKING = frozenset({
    "all", "any", "bool", "dim", "endswith", "float", "get", "getattr", "hasattr", "int",
    "is_grad_enabled", "isfinite", "isinf", "isinstance", "isnan", "item", "len", "lower", "max",
    "min", "numel", "size", "startswith", "sum",
})
# fmt: on
_BOOLEAN = frozenset({"bool", "endswith", "hasattr", "isinstance", "is_grad_enabled", "startswith"})
_OPTIONS = frozenset(
    ("args", "opt", "opts", "options", "cfg", "config", "conf", "flags", "hparams", "hps", "params")
)
_LOOSE = ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr


def are_options(value: ast.expr) -> bool:
    """Whether `value` is named as a program's options are, or a part of them (`self.cfg.train`)."""
    return not _OPTIONS.isdisjoint(ast.unparse(value).lower().split("."))


def training_condition(
    backward: Call, holder: ast.stmt, before: list[ast.stmt], hand_step: str
) -> str:
    """The code of the condition under which `backward`, in `holder`, follows on the statements
    `before` it in one block; "" where there is none that is known before them.

    Raises:
        Refusal: it may come out otherwise when it is asked a second time.
    """
    given = given_code(before)
    every = [
        part for test, holds in _tests(backward, holder, before) for part in _conjuncts(test, holds)
    ]
    parts = [part for part in every if not code_in(part[0]) & given]
    for value, _ in parts:
        if any(last_name(call.func) not in _ASKING for call in calls_in(value)):
            reason = f"backward runs only by {backward.script.code(value)}, which may come out "
            raise backward.refusal(f"{reason}otherwise when it is asked twice", hand_step)
    written = [_written(backward.script, value, holds) for value, holds in parts]
    asked = (value for value, holds in every if holds and isinstance(value, ast.Attribute))
    if "requires_grad" in (value.attr for value in asked):  # computed with gradients or without
        written.append(f"{backward.script.torch_name() or 'torch'}.is_grad_enabled()")
    code = " and ".join(dict.fromkeys(written))
    return code if not code or _is_bool(ast.parse(code, mode="eval").body) else f"bool({code})"


def _is_bool(value: ast.expr) -> bool:
    """Whether `value` comes out as True or False, whatever it is of."""
    match value:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return True
        case ast.Call(func=function):
            return last_name(function) in _BOOLEAN
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name == "training"  # as torch.nn.Module has it
        case ast.BoolOp(values=values):
            return all(map(_is_bool, values))
    return False


def _tests(
    backward: Call, holder: ast.stmt, before: list[ast.stmt]
) -> Iterator[tuple[ast.expr, bool]]:
    """The tests on the way to `backward`, and how they come out where it runs."""
    for at in straight(before):
        if isinstance(at, ast.If) and not _has_backward([at]):
            if _leaves(at.body):
                yield at.test, False
            elif _leaves(at.orelse):
                yield at.test, True
    inner = backward.script.statements_to(backward.node)
    for at in reversed(inner[: inner.index(holder) + 1]):
        if isinstance(at, ast.If) and not (_has_backward(at.body) and _has_backward(at.orelse)):
            yield at.test, _has_backward(at.body)


def _leaves(block: list[ast.stmt]) -> bool:
    """Whether `block` ends the loop's turn, or its function."""
    return bool(block) and isinstance(block[-1], ast.Continue | ast.Return)


def _has_backward(block: list[ast.stmt]) -> bool:
    return any(last_name(call.func) in BACKWARDS for at in block for call in calls_in(at))


def _conjuncts(test: ast.expr, holds: bool) -> Iterator[tuple[ast.expr, bool]]:
    """What holds, each by itself, where `test` does, or does not."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=value):
            yield from _conjuncts(value, not holds)
        case ast.BoolOp(op=operation, values=values) if isinstance(operation, ast.And) is holds:
            for value in values:
                yield from _conjuncts(value, holds)
        case _:
            yield test, holds


def _written(script: Script, value: ast.expr, holds: bool) -> str:
    code = ast.unparse(value) if value.end_lineno != value.lineno else script.code(value)
    if not holds:
        return f"not {code}" if isinstance(value, ATOMS) else f"not ({code})"
    return f"({code})" if isinstance(value, _LOOSE) else code


def code_in(test: ast.expr) -> set[str]:
    """The code of the variables and attributes in `test`."""
    read = (at for at in ast.walk(test) if isinstance(at, ast.Name | ast.Attribute))
    return set(map(ast.unparse, read))


def given_code(statements: list[ast.stmt]) -> set[str]:
    """The code of the variables and attributes that `statements` give a value, or add to."""
    found: set[str] = set()
    for node in (node for statement in statements for node in ast.walk(statement)):
        match node:
            case ast.Name(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                found.add(ast.unparse(node))
            case ast.Subscript(value=value, ctx=ast.Store()):
                found.add(ast.unparse(value))
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in GATHERING:
                if node.args or node.keywords:  # none of `scaler.update()`
                    found.add(ast.unparse(value))
    return found
