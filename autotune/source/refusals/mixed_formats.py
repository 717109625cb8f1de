"""Where a forward pass puts what a layer gives into places of another tensor, in a branch that no
step need have taken so far: under autocast they are of two number formats, which torch refuses.
"""

import ast
from collections.abc import Iterator

from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.refusals.kept_inside import forward_methods
from autotune.source.script import Function, Script, last_name

# Methods that put their last argument into their tensor, both of one format.
_PUTTING = frozenset(("index_add_", "index_copy_", "index_put_", "masked_scatter_", "scatter_"))
# What gives another format, or that of another tensor.
_CASTS = frozenset(("to", "type", "type_as", "float", "double", "half", "bfloat16", "item"))
_DEEP = 3  # so many variables it is followed through what a tensor was made from


def put_in_a_branch(program: Program) -> str:
    """Where that is: file and line, "" where it is not seen."""
    for script in program.scripts.values():
        for method in forward_methods(script):
            for node in ast.walk(method):
                for into, value in _put(node):
                    in_a_branch = _in_a_branch(script, node, method)
                    if in_a_branch and _is_short(value) and not _is_of_a_layer(method, into):
                        return f"{script.path}:{getattr(node, 'lineno', 1)}"
    return ""


def _put(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Into what `node` puts which value, at places that a tensor says."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=into, slice=key)], value=value):
            parts = key.elts if isinstance(key, ast.Tuple) else [key]
            if any(
                isinstance(at, ast.Name | ast.Attribute | ast.Call | ast.Compare) for at in parts
            ):
                yield into, value
        case ast.Call(func=ast.Attribute(value=into, attr=name), args=[*_, value]) if (
            name in _PUTTING
        ):
            yield into, value


def _in_a_branch(script: Script, node: ast.AST, method: Function) -> bool:
    for above in script.ancestors(node):
        if above is method:
            return False
        if isinstance(above, ast.If):
            return True
    return False


def _is_short(value: ast.expr) -> bool:
    """Whether `value` is what a layer gives, in the format that autocast leaves it in."""
    if isinstance(value, ast.Call) and last_name(value.func) in _CASTS:
        return False
    return any(map(_is_a_layers, calls_in(value)))


def _is_a_layers(call: ast.Call) -> bool:
    """Whether it is `self.imputed(x)` or `self.heads[kind](x)`: a layer, mostly."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="self")):
            return True
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"))):
            return True
    return False


def _is_of_a_layer(method: Function, into: ast.expr, deep: int = _DEEP) -> bool:
    """Whether `into` comes from what a layer gives, too."""
    if any(map(_is_a_layers, calls_in(into))):
        return True
    names = {at.id for at in ast.walk(into) if isinstance(at, ast.Name)} - {"self", "torch"}
    made = (
        node.value
        for node in ast.walk(method)
        if isinstance(node, ast.Assign)
        and any(last_name(target) in names for target in node.targets)
    )
    return bool(deep) and any(_is_of_a_layer(method, value, deep - 1) for value in made)
