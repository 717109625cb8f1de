"""What names in a file mean: the full names behind those that its imports bind."""

import ast
import copy
from collections.abc import Iterable, Mapping


def imported_names(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """The full name behind each name that the imports among `nodes` bind."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                names[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names.update({at.asname or at.name: f"{module}.{at.name}" for at in node.names})
    return names


def qualified(expression: ast.expr, imports: Mapping[str, str]) -> str:
    """The dotted name that `expression` is, with its first part read through `imports`; else ""."""
    match expression:
        case ast.Name(id=name):
            return imports.get(name, name)
        case ast.Attribute(value=value, attr=attribute):
            owner = qualified(value, imports)
            return f"{owner}.{attribute}" if owner else ""
    return ""


def meaning(node: ast.AST, imports: Mapping[str, str]) -> str:
    """`node` in a form that is equal for equal code, with names read through `imports`."""
    return ast.dump(_Qualify(imports).visit(copy.deepcopy(node)))


class _Qualify(ast.NodeTransformer):
    def __init__(self, imports: Mapping[str, str]) -> None:
        self._imports = imports

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name | ast.Attribute) and (name := qualified(node, self._imports)):
            return ast.Name(id=name, ctx=ast.Load())
        visited = super().visit(node)
        assert isinstance(visited, ast.AST)
        return visited
