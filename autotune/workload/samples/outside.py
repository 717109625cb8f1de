"""A file of the user's without the functions that make batches, each node with what is round it."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.source.meanings import imported_names
from autotune.source.reach import own_code
from autotune.source.script import first_line, tree_of
from autotune.workload.program.names import stored_names

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A node, what it lies in, and the names of the class and of its method that it lies in.

    `functions` are those around it, the outermost first.
    """

    node: ast.AST
    above: "At | None" = None
    kind: str = ""
    method: str = ""
    functions: tuple[FunctionNode, ...] = ()

    @property
    def parent(self) -> ast.AST | None:
        """The node that this one is a part of."""
        return self.above.node if self.above else None

    def inside(self, child: ast.AST) -> "At":
        """A part of this node."""
        within = replace(self, node=child, above=self)
        if isinstance(self.node, ast.ClassDef):
            return replace(within, kind=self.node.name, method="")
        if not isinstance(self.node, FUNCTIONS):
            return within
        method = self.method
        if self.kind and not method and not isinstance(self.node, ast.Lambda):
            method = self.node.name
        return replace(within, method=method, functions=(*self.functions, self.node))

    def scope(self, name: str) -> FunctionNode | None:
        """The function whose variable `name` is here; None of the module's."""
        owners = (each for each in reversed(self.functions) if name in _own_names(each))
        return next(owners, None)


class Outside:
    """What a file has outside the functions that make batches, which begin on lines `makers`."""

    def __init__(self, path: Path, text: str, makers: frozenset[int]) -> None:
        tree = tree_of(text)
        self.path = path
        self.places = list(_outside(tree, makers))
        self.imports = imported_names(ast.walk(tree))
        self._makers = makers

    def holds_maker(self, function: FunctionNode) -> bool:
        """Whether a function that makes batches lies in `function`."""
        inner = (at for at in ast.walk(function) if isinstance(at, FUNCTIONS))
        return any(first_line(each) in self._makers for each in inner)


def _outside(tree: ast.Module, makers: frozenset[int]) -> Iterator[At]:
    waiting = [At(node=tree)]
    while waiting:
        at = waiting.pop()
        yield at
        waiting += [
            at.inside(child)
            for child in ast.iter_child_nodes(at.node)
            if not isinstance(child, FUNCTIONS) or first_line(child) not in makers
        ]


@functools.lru_cache(maxsize=1024)
def _own_names(function: FunctionNode) -> frozenset[str]:
    """The variables of `function` itself."""
    own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    if isinstance(function, ast.Lambda):
        return frozenset(own)
    own.update(name for statement in function.body for name in stored_names(statement))
    others = (ast.Global, ast.Nonlocal)
    return frozenset(own) - {
        name for at in own_code(function) if isinstance(at, others) for name in at.names
    }
