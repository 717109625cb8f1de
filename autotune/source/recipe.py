"""What the text of a program's file says of how it is started."""

import ast

from autotune.source.meanings import imported_names
from autotune.source.script import Function, parse, tree_of


def missing_from_recipe(source: str) -> set[str]:
    """What `source` lacks of a recipe, which has `build_model` and `build_dataset` at top level."""
    names: set[str] = set()
    for statement in tree_of(source).body:
        if isinstance(statement, Function):
            names.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in statement.names)
        elif isinstance(statement, ast.Assign):
            names.update(leaf.id for leaf in statement.targets if isinstance(leaf, ast.Name))
    return {"build_model", "build_dataset"} - names


def imports_package(source: str, package: str) -> bool:
    """Whether `source` imports relatively, or from `package`; not where that is ""."""
    names = imported_names(ast.walk(parse(source))).values()
    return bool(package) and any(name.partition(".")[0] in ("", package) for name in names)
