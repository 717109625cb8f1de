"""Calls that give memory which nothing has been written to."""

import ast

from autotune.source.program import Program, first_of
from autotune.source.script import Script, last_name

_GIVES = frozenset(
    ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "ndarray")
)
# Of torch: of sizes, where they are not given what is to lie in them.
_OF_SIZES = frozenset(
    f"{kind}Tensor"
    for kind in ("", "Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Byte", "Bool")
) | {"new"}


def unwritten(program: Program) -> str:
    """File and line where the program first takes such memory and does not fill it at once."""
    return first_of(
        each for each in program.calls() if _is_unwritten(each[1]) and not _is_filled(*each)
    )


def _is_unwritten(call: ast.Call) -> bool:
    name = last_name(call.func)
    if name in _GIVES:
        sizes = (at for each in call.args for at in (each, *getattr(each, "elts", ())))
        return not any(isinstance(at, ast.Constant) and at.value == 0 for at in sizes)
    match call.args:
        case [first]:
            return name in _OF_SIZES and _is_size(first)
        case [first, *_]:
            data = isinstance(first, ast.List | ast.ListComp | ast.Tuple | ast.Dict)
            text = isinstance(first, ast.Constant) and isinstance(first.value, str)
            return name in _OF_SIZES and not (data or text or _is_of_a_class(call.func))
    return False


def _is_size(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int(number)):
            return number > 0
        case ast.Starred() | ast.Attribute(attr="shape"):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[]):
            return True
    return False


def _is_of_a_class(function: ast.expr) -> bool:
    """As `Image.new("L", size)` is, which is none of torch's."""
    match function:
        case ast.Attribute(attr="new", value=ast.Name(id=owner)):
            return owner[:1].isupper()
    return False


def _is_filled(script: Script, call: ast.Call) -> bool:
    """Whether the next that is done with it writes all of it: `torch.empty(3).uniform_()`."""
    above = next(script.ancestors(call), None)
    return isinstance(above, ast.Attribute) and above.attr.endswith("_")
