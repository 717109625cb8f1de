"""What a statement or a call sets, by code or by names as texts, and into what it writes."""

import ast
import functools
import re
from collections.abc import Collection, Iterable, Iterator

from autotune.source.script import given_to, root_name, stored_names

# Methods that write into an array, or change a container; functions that write into the first they
# are given.
_CHANGING = frozenset(
    (
        *("fill", "sort", "partition", "put", "itemset", "append", "appendleft", "extend"),
        *("remove", "pop", "popleft", "popitem", "clear", "reverse", "rotate", "add", "discard"),
        *("insert", "update", "setdefault", "setfield", "resize", "set"),
    )
)
_FILLED_FIRST = frozenset(
    ("copyto", "put", "put_along_axis", "putmask", "place", "shuffle", "setitem", "delitem")
)
# Those of tensors that leave their numbers as they are.
_KEEPING = frozenset(("requires_grad_", "share_memory_", "detach_"))
# Whose functions that are named as such methods are given first what they write into
# (`nn.init.zeros_(table)`, `dict.update(options, ...)`).
_NAMESPACES = frozenset(("torch", "nn", "init", "F", "dict", "list", "set", "deque", "OrderedDict"))
# Functions that show the same memory.
_SHOWING = frozenset(("memoryview", "asarray", "from_numpy", "as_tensor", "frombuffer"))
# Attributes and methods that show the same memory.
_VIEWS = frozenset(
    (
        *("loc", "iloc", "at", "iat", "values", "items", "flat", "T", "mT", "detach", "numpy"),
        *("view", "view_as", "reshape", "reshape_as", "ravel", "flatten", "narrow", "select"),
        *("squeeze", "unsqueeze", "transpose", "permute", "swapaxes", "movedim", "expand"),
        *("chunk", "split", "tensor_split", "unbind", "diagonal", "unfold"),
        *("as_strided", "real", "imag", "contiguous", "cpu"),
    )
)
# Whose attribute or variable it is, where that is told, and its name, where only a run knows it.
Named = tuple[ast.expr | None, str | None]

_SETTERS = frozenset(("setattr", "delattr"))
_OWN_SETTERS = frozenset(("__setattr__", "__delattr__"))
_SET_IN_TEXT = re.compile(r"(\w+)\s*[-+*/|&]?=(?!=)")


def assigned(node: ast.AST) -> list[ast.expr]:
    """The names, attributes and items that `node` gives a value, and attributes that it deletes."""
    match node:
        case ast.Assign(targets=targets):
            return [at for target in targets for at in _targets(target)]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()):
            return [target]
        case ast.For(target=target):
            return _targets(target)
        case ast.Delete(targets=targets):
            return [at for at in targets if isinstance(at, ast.Attribute)]
    return []


def _targets(target: ast.expr) -> list[ast.expr]:
    """`a, b` of `a, b = ...`."""
    if isinstance(target, ast.Tuple | ast.List):
        return [at for each in target.elts for at in _targets(each)]
    return [target]


def stored_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Name | ast.Attribute]:
    """The variables and attributes among `nodes` that are given a value."""
    for at in nodes:
        if isinstance(at, ast.Name | ast.Attribute) and isinstance(at.ctx, ast.Store):
            yield at


def given_values(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What `node` assigns which value: side by side, each its own (`x, y = x.cuda(), y.cuda()`)."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from zip(targets, values, strict=False)
        case ast.Assign(targets=targets, value=value):
            each = [at.elts if isinstance(at, ast.Tuple) else [at] for at in targets]
            yield from ((target, value) for some in each for target in some)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value


def given_or_added(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The same, by `x += y` and `(x := y)` too."""
    if isinstance(node, ast.AugAssign | ast.NamedExpr):
        yield node.target, node.value
    yield from given_values(node)


def values_given(within: ast.AST, name: str) -> list[ast.expr]:
    """What the variable `name` is assigned `within`, alone or beside others."""
    nodes = (at for at in ast.walk(within) if isinstance(at, ast.Assign))
    return [at.value for at in nodes if name in stored_names(at)]


def written_into(node: ast.AST) -> Iterator[ast.expr]:
    """What `node` changes inside: by an item, operator, method, or function that fills it."""
    match node:
        case ast.AugAssign(target=ast.Attribute() | ast.Name() as target):
            yield target
        case ast.Assign() | ast.AugAssign():
            yield from (whole_of(at) for at in assigned(node) if isinstance(at, ast.Subscript))
        case ast.Delete(targets=targets):
            yield from (whole_of(at) for at in targets if isinstance(at, ast.Subscript))
        case ast.Call(func=ast.Attribute(value=owner, attr=method), args=given, keywords=named):
            changes = method in _CHANGING or (method.endswith("_") and not method.endswith("__"))
            changes = (changes and method not in _KEEPING) or any(map(_in_place, named))
            first = method in _FILLED_FIRST or (method == "at" and len(given) > 1)
            if changes and root_name(owner) in _NAMESPACES:
                first = True
            elif changes:
                yield whole_of(owner)
            yield from (whole_of(at) for each in given[:1] if first for at in _targets(each))
            yield from (each.value for each in named if each.arg == "out")


def _in_place(argument: ast.keyword) -> bool:
    """Whether it is `inplace=True`, or may be."""
    given = argument.value
    return argument.arg == "inplace" and not (isinstance(given, ast.Constant) and not given.value)


def whole_of(part: ast.expr) -> ast.expr:
    """`table.levels` of `table.levels[3][:2]` and of `table.levels.detach().numpy()[3]`."""
    match part:
        case ast.Subscript(value=whole):
            return whole_of(whole)
        case ast.Attribute(attr=view, value=whole) if view in _VIEWS:
            return whole_of(whole)
        case ast.Call(func=ast.Attribute(attr=view, value=whole)) if view in _VIEWS:
            return whole_of(whole)
        case ast.Call(func=ast.Attribute(attr=shown) | ast.Name(id=shown), args=[whole, *_]) if (
            shown in _SHOWING
        ):
            return whole_of(whole)
    return part


@functools.lru_cache(maxsize=4096)  # it is asked for each setting, and a tree does not change
def shown_by(name: str, within: ast.AST) -> tuple[ast.expr, ...]:
    """What the variable `name` may show the memory of, by what `within` gives it."""
    found = list[ast.expr]()
    for node in ast.walk(within):
        match node:
            case ast.Assign(targets=[ast.Name(id=own)], value=value) if own == name:
                found += [] if any(map(_copies, ast.walk(value))) else [value]
            case ast.For(target=target, iter=given):
                if any(isinstance(at, ast.Name) and at.id == name for at in ast.walk(target)):
                    found += gone_through(given)
    return tuple(found)


def gone_through(given: ast.expr) -> list[ast.expr]:
    """`table` of itself, and of `enumerate(table)`."""
    match given:
        case ast.Call(func=ast.Name(), args=[_, *_] as several):
            return several
    return [given]


def _copies(part: ast.AST) -> bool:
    """Whether it is `table[chosen > 3]`, and no part that is told by numbers and slices."""
    return isinstance(part, ast.Subscript) and not any(
        isinstance(at, ast.Slice | ast.Constant | ast.Name)
        for at in (part.slice, *(getattr(part.slice, "elts", ())))
    )


def keys_set(node: ast.AST) -> set[object] | None:
    """The keys of a dict's items that `node` sets; None where it does not tell."""
    match node:
        case ast.Assign() | ast.AugAssign():
            at = [each.slice for each in assigned(node) if isinstance(each, ast.Subscript)]
        case ast.Delete(targets=targets):
            at = [each.slice for each in targets if isinstance(each, ast.Subscript)]
        case ast.Call(func=ast.Attribute(attr="pop" | "setdefault"), args=[key, *_]):
            at = [key]
        case ast.Call(func=ast.Attribute(attr="update"), args=[], keywords=named) if all(
            each.arg for each in named
        ):
            return {each.arg for each in named}
        case ast.Call(func=ast.Attribute(attr="update"), args=[ast.Dict(keys=keys)], keywords=[]):
            at = [key for key in keys if key is not None]
            if len(at) < len(keys):
                return None
        case _:
            return None
    if at and all(isinstance(each, ast.Constant) for each in at):
        return {each.value for each in at if isinstance(each, ast.Constant)}
    return None


def set_by_name(node: ast.AST) -> Iterator[Named]:
    """What `node` sets by its name: `setattr(table, "level", ...)`, `vars(table)["level"] = ...`,
    `globals()["LEVEL"] = ...`, `exec("table.level = ...")`, and what it leaves with others to be
    set: `partial(setattr, table, "level")`.
    """
    match node:
        case ast.Call(func=ast.Name(id=setter), args=[owner, name, *_]) if setter in _SETTERS:
            yield owner, _text(name)
        case ast.Call(func=ast.Attribute(attr=setter, value=owner), args=given) if (
            setter in _OWN_SETTERS and given
        ):
            of_class = isinstance(owner, ast.Name) and owner.id == "object"
            owner, *told = given if of_class else (owner, *given)
            yield owner, _text(told[0]) if told else None
        case ast.Call(func=ast.Name(id="exec"), args=[ast.Constant(value=str(text)), *_]):
            yield from ((None, name) for name in _SET_IN_TEXT.findall(text))
        case ast.Call(func=ast.Attribute(attr="update", value=table)):
            yield from _items_of(table, node)
        case ast.Call():
            yield from _left_to_set(node)
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            whole = (each.value for each in targets if isinstance(each, ast.Subscript))
            yield from (named for table in whole for named in _items_of(table, node))
        case ast.AugAssign(target=ast.Subscript(value=table) | table):
            yield from _items_of(table, node)


def _left_to_set(call: ast.Call) -> Iterator[Named]:
    handed = given_to(call)
    if any(isinstance(each, ast.Name) and each.id in _SETTERS for each in handed):
        constants = (at for each in handed for at in ast.walk(each) if isinstance(at, ast.Constant))
        yield from ((None, at.value) for at in constants if isinstance(at.value, str))


def _items_of(table: ast.expr, node: ast.AST) -> Iterator[Named]:
    """What `node` sets in `vars(owner)`, `owner.__dict__` or `globals()`."""
    match table:
        case ast.Call(func=ast.Name(id="vars"), args=[owner]):
            pass
        case ast.Attribute(attr="__dict__", value=owner):
            pass
        case ast.Call(func=ast.Name(id="globals")):
            owner = table
        case _:
            return
    names = keys_set(node)
    yield from ((owner, str(name)) for name in names or ())
    if names is None:
        yield owner, None


def _text(name: ast.expr) -> str | None:
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def is_module(owner: ast.expr, imports: Collection[str]) -> bool:
    """Whether it is a module: imported, `sys.modules[...]`, or this one's `globals()`."""
    match owner:
        case ast.Name(id=name):
            return name in imports
        case ast.Subscript(value=ast.Attribute(attr="modules")):
            return True
        case ast.Call(func=ast.Name(id="globals")):
            return True
    return False
