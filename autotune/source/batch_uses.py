"""What a loop does with its batches besides copying them: does any of it need them on the host?"""

import ast
from collections.abc import Sequence

from autotune.source.iteration import enumerate_of
from autotune.source.loss import stored_names
from autotune.source.script import Script, is_method, last_name

# What a loop may ask of a batch, or do with it, wherever that lies.
_HARMLESS = frozenset({"to", "cuda", "size", "shape", "ndim", "dim", "dtype", "keys"})
# Methods by which a tensor gives another one of the same numbers, where it lies itself.
# fmt: off
_OF_TENSORS = frozenset({
    "contiguous", "double", "flatten", "float", "half", "int", "long", "permute", "reshape",
    "squeeze", "t", "transpose", "unsqueeze", "view",
})
# fmt: on
_OF_DICTS = frozenset({"items", "values"})
_ASKING = frozenset({"hasattr", "is_tensor", "isinstance", "len"})
_SAME = "Variable"  # torch.autograd's, which gives its tensor back


def kept_on_the_host(script: Script, loop: ast.For) -> str:
    """A variable of the batch that the loop does more with than copy it or ask for its size,
    before it gives that name to something else.
    """
    parts, unpacked = _parts_of_batch(script, loop)
    names = [
        node
        for at in loop.body
        for node in ast.walk(at)
        if isinstance(node, ast.Name) and node.id in parts
    ]
    anew: dict[str, int] = {}  # the end of the first statement that gives the name to another value
    for node in names:
        statement = _giving_anew(script, node)
        if statement is not None and statement not in unpacked:
            end = script.end(statement)
            anew[node.id] = min(anew.get(node.id, end), end)
    for node in names:
        early = script.end(node) <= anew.get(node.id, script.end(node))
        used = isinstance(node.ctx, ast.Load) and not _is_unpacked(script, node, unpacked)
        if early and used and not _is_harmless(script, node):
            return node.id
    return ""


def asks_kind(test: ast.expr) -> bool:
    """Whether `test` asks what something is: `isinstance(value, torch.Tensor)`."""
    return isinstance(test, ast.Call) and last_name(test.func) in _ASKING


def _parts_of_batch(script: Script, loop: ast.For) -> tuple[set[str], list[ast.Assign]]:
    """The names of the batch and of its parts, and the statements that only unpack it, or give it
    another shape or number format.
    """
    batch = loop.target
    if isinstance(batch, ast.Tuple) and enumerate_of(script, loop, loop.iter):
        batch = batch.elts[-1]
    names, unpacked = stored_names(batch), list[ast.Assign]()
    for statement in (at for at in loop.body if isinstance(at, ast.Assign)):
        value = statement.value
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        if all(_whole(each) in names for each in values):
            unpacked.append(statement)
            names |= set().union(*map(stored_names, statement.targets))
    return names, unpacked


def _is_unpacked(script: Script, node: ast.Name, unpacked: Sequence[ast.stmt]) -> bool:
    """Whether `node` is what one of these statements unpacks, and not what it does that by."""
    _, above = _made_of(script, node)
    return isinstance(above, ast.Assign | ast.Tuple) and script.statement(node) in unpacked


def _whole(value: ast.expr) -> str:
    """The variable that `value` is, is an element of, or is made of; "" where it is neither."""
    match value:
        case ast.Name(id=name):
            return name
        case ast.Subscript(value=inner):
            return _whole(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _OF_TENSORS:
            return _whole(inner)
        case ast.Call(func=function, args=[inner]) if last_name(function) == _SAME:
            return _whole(inner)
    return ""


def _giving_anew(script: Script, node: ast.Name) -> ast.stmt | None:
    """The statement in which `node` is given another value, or each of its elements is."""
    statement = script.statement(node)
    if isinstance(node.ctx, ast.Store):
        return statement
    parent = next(script.ancestors(node))
    if not (isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)):
        return None
    for around in script.statements_to(statement)[1:]:
        if isinstance(around, ast.For):
            first = around.target.elts[0] if isinstance(around.target, ast.Tuple) else around.target
            each = _whole(_gone_over(around.iter)) == node.id
            return around if each and last_name(parent.slice) == last_name(first) else None
        if not (isinstance(around, ast.If) and asks_kind(around.test)):
            break
    return None


def _gone_over(source: ast.expr) -> ast.expr:
    """`batch` of `batch.items()`."""
    match source:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in (*_OF_DICTS, "keys"):
            return owner
    return source


def _is_harmless(script: Script, value: ast.expr) -> bool:
    """Whether `value`, a part of a batch, is only copied there, or asked for what it has on any
    device.
    """
    node, parent = _made_of(script, value)
    match parent:
        case ast.Attribute(attr=name):
            return name in _HARMLESS
        case ast.Call(func=function):
            return last_name(function) in _ASKING
        case ast.Subscript(value=whole, ctx=ast.Store()):
            return whole is node
        case ast.IfExp(test=test, orelse=other):
            return other is node and asks_kind(test)
        case ast.comprehension(iter=source) | ast.For(iter=source):
            return source is node and _has_harmless_elements(script, parent)
    return isinstance(parent, ast.Compare) and isinstance(parent.ops[0], ast.Is | ast.IsNot)


def _made_of(script: Script, value: ast.expr) -> tuple[ast.AST, ast.AST]:
    """What only takes an element of `value`, or gives it another shape or number format, and what
    is above that.
    """
    node: ast.AST = value
    for parent in script.ancestors(value):
        match parent:
            case ast.Subscript(value=whole, ctx=ast.Load()):
                goes_on = whole is node
            case ast.Attribute(attr=name):
                goes_on = name in _OF_TENSORS | _OF_DICTS
            case ast.Call(func=function):
                goes_on = function is node or last_name(function) == _SAME
            case _:
                goes_on = False
        if not goes_on:
            return node, parent
        node = parent
    raise AssertionError("an expression lies in a statement")


def _has_harmless_elements(script: Script, loop: ast.comprehension | ast.For) -> bool:
    """Whether the loop over a part of a batch does nothing else with what it goes over, either."""
    holder = loop if isinstance(loop, ast.For) else next(script.ancestors(loop))
    names, batch = stored_names(loop.target), _gone_over(loop.iter)
    if is_method(loop.iter, "items") and isinstance(loop.target, ast.Tuple):
        names -= stored_names(loop.target.elts[0])
    uses = (at for at in ast.walk(holder) if isinstance(at, ast.Name) and at.id in names)
    return all(
        _is_harmless(script, at) or _is_key(script, at, _whole(batch))
        for at in uses
        if isinstance(at.ctx, ast.Load)
    )


def _is_key(script: Script, node: ast.Name, batch: str) -> bool:
    """Whether `node` is the key of an element of `batch`, or of a dict that is made of it."""
    parent = next(script.ancestors(node))
    match parent:
        case ast.DictComp(key=key):
            return key is node
        case ast.Subscript(value=whole, slice=key):
            return key is node and _whole(whole) == batch != ""
    return False
