"""Where a program reads what making a batch leaves behind: in a worker it is left in a copy."""

import ast
import linecache
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from autotune.source.meanings import qualified
from autotune.source.script import last_name
from autotune.workload.program.imported import files_from, imported_files
from autotune.workload.program.target import Target
from autotune.workload.samples.delivery import Left, LeftAttribute, LeftVariable
from autotune.workload.samples.outside import At, Outside

_ITSELF = frozenset({"self", "cls"})
_TAKES_ITEM = frozenset({"get", "pop", "popleft"})
_ENDS = frozenset({"clear", "close"})

# A name, and the expression that it is given.
Bound = tuple[str, ast.expr]


def read_back(target: Target, left: Left) -> str:
    """The first place in the user's files that reads something of `left` and is no part of making
    batches: "`mix.lam` (train.py:170)"; "" where none does.
    """
    files = [Outside(file, text, _makers(left, file)) for file, text in _files(target)]
    everywhere = [at for file in files for at in file.places]
    ending = {part for at in everywhere for part in _tests_for_ending(at.node)}
    bound = list(_bound(everywhere))
    named = {at.node.attr for at in everywhere if isinstance(at.node, ast.Attribute)}
    known = [(each, _names(each, bound)) for each in left.attributes]
    for file in files:
        found = [at for each in left.variables for at in file.places if _uses(at, each, file)]
        for each, names in known:
            reads = (at for at in file.places if _reads(at, each, names, named))
            found += [at for at in reads if at.node not in ending]
        lines = [at.node for at in found if isinstance(at.node, ast.expr)]
        if lines:
            first = min(lines, key=lambda read: (read.lineno, read.col_offset))
            return f"`{ast.unparse(first)}` ({file.path.name}:{first.lineno})"
    return ""


def _files(target: Target) -> Iterable[tuple[Path, str]]:
    if target.path:
        return imported_files(target)
    own = [(Path(file), "".join(linecache.getlines(file))) for file in target.files]
    return files_from(own, tuple({file.parent for file, _ in own}))


def _makers(left: Left, file: Path) -> frozenset[int]:
    real = os.path.realpath(file)
    return frozenset(line for path, line in left.makers if os.path.realpath(path) == real)


# Attributes: which object's they are is told by the names that it goes by.


def _bound(places: Sequence[At]) -> Iterator[Bound]:
    """What is bound by assignments, and by calls to parameters."""
    parameters = _parameters(places)
    for at in places:
        match at.node:
            case ast.Assign(targets=targets, value=value):
                yield from ((last_name(target), value) for target in targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield last_name(target), value
            case ast.NamedExpr(target=target, value=value):
                yield target.id, value
            case ast.Call(func=function, args=given, keywords=keywords):
                yield from ((each.arg, each.value) for each in keywords if each.arg)
                for names in parameters[last_name(function)]:
                    yield from zip(names, given, strict=False)
                if last_name(function).endswith("DataLoader"):
                    yield from zip(["dataset"], given, strict=False)


def _parameters(places: Sequence[At]) -> defaultdict[str, list[list[str]]]:
    """The parameters of the user's functions by their names, of `__init__` by its class's."""
    found: defaultdict[str, list[list[str]]] = defaultdict(list)
    for at in places:
        if isinstance(at.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [each.arg for each in (*at.node.args.posonlyargs, *at.node.args.args)]
            own = at.kind if at.node.name == "__init__" else at.node.name
            found[own].append(names[1:] if names[:1] and names[0] in _ITSELF else names)
    return found


def _names(attribute: LeftAttribute, bound: Sequence[Bound]) -> frozenset[str]:
    """The names that the object with `attribute` goes by in the user's files."""
    names = set(attribute.known_as)
    names |= {last_name(value) for name, value in bound if name in names}  # collate_fn=mix
    while True:
        names -= {"", *_ITSELF}
        kinds = attribute.kinds
        more = {name for name, at in bound if last_name(at) in names or _makes(at, kinds)}
        if more <= {*names, "", *_ITSELF}:
            return frozenset(names)
        names |= more


def _makes(value: ast.expr, kinds: tuple[str, ...]) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in kinds[:1]


def _reads(at: At, attribute: LeftAttribute, names: frozenset[str], named: set[str]) -> bool:
    """Whether it reads `attribute` of an object that goes by one of `names`; `named` are all
    attributes that are used anywhere.
    """
    match at.node:
        case ast.Attribute(value=owner, attr=attribute.name, ctx=ast.Load()):
            pass
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(attribute.name), *_]):
            pass
        case _:
            return False
    if isinstance(owner, ast.Name) and owner.id in _ITSELF:
        # Methods of what collates may be a trainer's, which a framework calls.
        called = attribute.collates or at.method in named
        own = at.kind in attribute.kinds and not at.method.startswith("__")
        return called and own and not _is_ended(at)
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    return last_name(owner) in names and not _is_ended(at)


def _is_ended(at: At) -> bool:
    """Whether nothing is done with it but to clear or close it."""
    return isinstance(at.parent, ast.Attribute) and at.parent.attr in _ENDS


def _tests_for_ending(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a test by which `node` does nothing but to end what is tested, or to unset it:
    `self.file is not None` of `if self.file is not None: self.file.close()`.
    """
    match node:
        case ast.If(test=test, body=body, orelse=[]):
            pass
        case ast.Expr(value=ast.BoolOp(op=ast.And(), values=[test, last])):
            body = [ast.Expr(value=last)]
        case _:
            return
    parts = [*ast.walk(test)]
    tested = {ast.unparse(each) for each in parts if isinstance(each, ast.expr)}
    if all(ended in tested for each in body for ended in _ended(each)):
        yield from parts


def _ended(statement: ast.stmt) -> Iterator[str]:
    """What `statement` ends or unsets, as it is written; "" where it does something else."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ended, attr=name))) if name in _ENDS:
            yield ast.unparse(ended)
        case ast.Assign(targets=[*targets], value=ast.Constant(value=None)):
            yield from map(ast.unparse, targets)
        case _:
            yield ""


# Variables


def _uses(at: At, variable: LeftVariable, file: Outside) -> bool:
    if variable.by_item and not _takes_item(at):
        return False
    match at.node:
        case ast.Name(id=name, ctx=ast.Load()):
            return _is_variable(at, name, variable, file)
        case ast.Attribute(value=module, attr=variable.name, ctx=ast.Load()):
            full = qualified(module, file.imports)
            imported = ast.unparse(module).partition(".")[0] in file.imports
            return imported and full.rpartition(".")[2] in _modules(variable)
    return False


def _takes_item(at: At) -> bool:
    if isinstance(at.parent, ast.Subscript):
        return at.parent.value is at.node
    return isinstance(at.parent, ast.Attribute) and at.parent.attr in _TAKES_ITEM


def _is_variable(at: At, name: str, variable: LeftVariable, file: Outside) -> bool:
    if os.path.realpath(file.path) not in map(os.path.realpath, variable.files):
        # What was imported from there is the same as long as it is filled, not replaced.
        meant = [f"{module}.{variable.name}" for module in _modules(variable)]
        return not variable.replaced and file.imports.get(name, "").endswith(tuple(meant))
    if name != variable.name:
        return False
    scope = at.scope(name)
    if scope is None or not variable.enclosed:
        return scope is None and not variable.enclosed
    return file.holds_maker(scope)


def _modules(variable: LeftVariable) -> set[str]:
    """The names of the modules whose it is."""
    if variable.enclosed:
        return set()
    paths = map(Path, variable.files)
    return {path.parent.name if path.stem == "__init__" else path.stem for path in paths}
