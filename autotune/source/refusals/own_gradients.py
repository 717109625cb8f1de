"""Where a program gives its weights gradients of its own making, or reads those they have."""

import ast
import os

from autotune.source.loops.loss import stored_names
from autotune.source.program import Program
from autotune.source.reach import reached
from autotune.source.script import Script

_TURNED = frozenset(("T", "mT", "H", "mH"))
_TURNING = frozenset(("t", "transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis"))
# Whose results lie column by column, as LAPACK writes them, or as their indices were summed.
_BY_COLUMNS = frozenset(
    (
        *("solve", "solve_ex", "solve_triangular", "triangular_solve", "lstsq", "lu_solve"),
        *("ldl_solve", "cholesky_solve", "cholesky", "cholesky_inverse", "qr", "svd", "eig"),
        *("eigh", "inv", "inv_ex", "inverse", "pinv", "pinverse", "householder_product"),
        *("ormqr", "matrix_exp", "einsum", "tensordot", "cho_solve"),
    )
)


def turned_gradients(program: Program) -> str:
    """Where a weight is given a gradient that comes of a transposed one, or of what lies column by
    column, in whatever step: file and line, "" where none is.

    Such a gradient may lie in memory otherwise than its weight.
    """
    for script in program.scripts.values():
        for node in script.nodes if ".grad" in script.text else ():
            if isinstance(node, ast.Assign) and any(map(_is_gradient, node.targets)):
                given = reached(program, [node.value, *_values_of(script, node.value)])
                if any(_turns(part) for each in given for part in ast.walk(each)):
                    return f"{os.path.basename(script.path)}:{node.lineno}"
    return ""


def gradients_read(program: Program) -> str:
    """Where the program reads a weight's gradient, in whatever step: file and line, "" where it
    does not. Whether there is one, and zeros in its place, is no matter.
    """
    for script in program.scripts.values():
        for node in script.nodes if ".grad" in script.text else ():
            match node:
                case ast.Attribute(attr="grad", ctx=ast.Load()) if not _asks(script, node):
                    return f"{os.path.basename(script.path)}:{node.lineno}"
    return ""


def _asks(script: Script, gradient: ast.Attribute) -> bool:
    match next(script.ancestors(gradient), None):
        case ast.Compare(comparators=[ast.Constant(value=None)]):
            return True
        case ast.Attribute(attr="zero_" | "detach_"):
            return True
        case ast.If(test=test) | ast.IfExp(test=test):
            return test is gradient
    return False


def _is_gradient(target: ast.expr) -> bool:
    if isinstance(target, ast.Attribute) and target.attr == "data":
        target = target.value
    return isinstance(target, ast.Attribute) and target.attr == "grad"


def _values_of(script: Script, value: ast.expr) -> list[ast.AST]:
    """What the function round `value` gives the variables in it, and what it takes them from, one
    after another.
    """
    names = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
    found: list[ast.AST] = []
    for node in ast.walk(script.function(value) or script.tree):
        match node:
            case ast.Assign(targets=targets, value=given):
                found += [given] if names & set[str]().union(*map(stored_names, targets)) else []
            case ast.For(target=target, iter=given) | ast.comprehension(target=target, iter=given):
                found += [given] if names & stored_names(target) else []
    return found


def _turns(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) if name in _TURNED:
            return True
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _TURNING or name in _BY_COLUMNS
    return False
