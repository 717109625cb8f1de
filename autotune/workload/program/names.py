"""What a module binds at its top level, read from its text."""

import ast
from collections.abc import Iterator

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def bindings(tree: ast.Module) -> Iterator[tuple[str, str, ast.stmt]]:
    """Each name that the module binds, the import that does ("" otherwise), and the statement."""
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                yield bound_by(alias, statement), written_out(alias, statement), statement
        else:
            for name in stored_names(statement):
                yield name, "", statement
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                yield name, "", node


def bound_by(alias: ast.alias, statement: ast.stmt) -> str:
    """The name that one part of an import binds."""
    if alias.asname or isinstance(statement, ast.ImportFrom):
        return alias.asname or alias.name
    return alias.name.partition(".")[0]


def written_out(alias: ast.alias, statement: ast.Import | ast.ImportFrom) -> str:
    """One part of an import as a statement of its own."""
    renamed = f" as {alias.asname}" if alias.asname else ""
    if isinstance(statement, ast.ImportFrom):
        return f"from {'.' * statement.level}{statement.module or ''} import {alias.name}{renamed}"
    return f"import {alias.name if renamed else alias.name.partition('.')[0]}{renamed}"


def stored_names(node: ast.AST) -> Iterator[str]:
    """Names that a statement binds in its own scope."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (bound_by(alias, node) for alias in node.names)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from stored_names(child)
