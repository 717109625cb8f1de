"""What a loop does with its batches besides copying them: does any of it need them on the host?"""

import ast
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from autotune.source.loops.iteration import enumerate_of
from autotune.source.script import (
    COMPREHENSIONS,
    Function,
    Script,
    is_method,
    last_name,
    stored_names,
)

# What a loop may ask of a batch, or do with it, wherever that lies.
_HARMLESS = frozenset({"to", "cuda", "size", "shape", "ndim", "numel", "dim", "dtype", "keys"})
# Methods by which a tensor gives another one of the same numbers, where it lies itself.
# fmt: off
_OF_TENSORS = frozenset({
    "bool", "contiguous", "double", "flatten", "float", "half", "int", "long", "permute", "reshape",
    "squeeze", "t", "transpose", "type", "unsqueeze", "view",
})
# fmt: on
_OF_DICTS = frozenset({"items", "values"})
_TAKING = frozenset({"get", "pop"})  # a part of a dict
_ASKING = frozenset({"hasattr", "is_tensor", "isinstance", "len"})
_SAME = "Variable"  # torch.autograd's, which gives its tensor back


def kept_on_the_host(script: Script, loop: ast.For) -> str:
    """A variable of the batch with which more is done than to copy it, or ask for its size."""
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
    left = _read_outside(script, loop, parts - set(anew))
    return next((node.id for node in left if not _is_harmless(script, node)), "")


def batch_of(script: Script, loop: ast.For) -> ast.expr:
    """What `loop` gives each batch to, without the number that `enumerate` gives."""
    if isinstance(loop.target, ast.Tuple) and enumerate_of(script, loop, loop.iter):
        return loop.target.elts[-1]
    return loop.target


def asks_kind(test: ast.expr) -> bool:
    """Whether `test` asks what something is: `isinstance(value, torch.Tensor)`."""
    return isinstance(test, ast.Call) and last_name(test.func) in _ASKING


def _read_outside(script: Script, loop: ast.For, parts: Collection[str]) -> Iterator[ast.Name]:
    """Where the variables `parts` may still be read as `loop` left them: behind it, or around."""
    function = script.function(loop)
    rest = {at for statement in loop.orelse for at in ast.walk(statement)}
    inside = set(ast.walk(loop)) - rest
    named = [
        at
        for at in ast.walk(function or script.tree)
        if isinstance(at, ast.Name) and at.id in parts and at not in inside
        if not _is_of_its_own(script, at, function)
    ]
    given = [at for at in named if isinstance(at.ctx, ast.Store)]
    for node in (at for at in named if isinstance(at.ctx, ast.Load)):
        if script.function(node) is not function:
            yield node
        elif script.start(node) > script.start(loop) or _round_both(script, loop, node):
            between = (at for at in given if at.id == node.id)
            if not any(_comes_between(script, loop, at, node) for at in between):
                yield node


def _is_of_its_own(script: Script, node: ast.Name, function: Function | None) -> bool:
    """Whether a lambda, comprehension or function inside `function` has a variable of that name."""
    for at in takewhile(lambda at: at is not function, script.ancestors(node)):
        if isinstance(at, Function | ast.Lambda | COMPREHENSIONS):
            outer = (each for each in ast.walk(at) if isinstance(each, ast.Global | ast.Nonlocal))
            taken = {each.arg for each in ast.walk(at) if isinstance(each, ast.arg)}
            own = stored_names(at) | taken
            if node.id in own.difference(*(each.names for each in outer)):
                return True
    return False


def _round_both(script: Script, loop: ast.For, node: ast.AST) -> ast.AST | None:
    """The innermost loop that holds both `loop` and `node`."""
    above = set(script.ancestors(node))
    loops = (at for at in script.ancestors(loop) if isinstance(at, ast.For | ast.While))
    return next((at for at in loops if at in above), None)


def _comes_between(script: Script, loop: ast.For, given: ast.Name, node: ast.Name) -> bool:
    """Whether the variable surely gets another value, as `given`, between `loop` and `node`."""
    holder, way = script.statement(given), script.statements_to(node)
    block = script.block(holder)
    index = block.index(holder)
    if holder in way:
        surely = any(at in way for at in getattr(holder, "body", []))
    else:
        follows = any(at in script.statements_to(loop) for at in block[:index])
        surely = follows or any(at in way for at in block[index + 1 :])
    if script.start(node) > script.start(loop):
        return surely and script.start(loop) < script.start(given) < script.start(node)
    return surely and _round_both(script, loop, node) in set(script.ancestors(given))


def _parts_of_batch(script: Script, loop: ast.For) -> tuple[set[str], list[ast.Assign]]:
    """The names of the batch and its parts, and the statements that only unpack or reshape it."""
    names, unpacked = stored_names(batch_of(script, loop)), list[ast.Assign]()
    for statement in (at for at in loop.body if isinstance(at, ast.Assign)):
        value = statement.value
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        kept = any(_is_elsewhere(at, names) for at in statement.targets)
        if all(_whole(each) in names for each in values) and not kept:
            unpacked.append(statement)
            names |= set().union(*map(stored_names, statement.targets))
    return names, unpacked


def _is_elsewhere(target: ast.expr, names: Collection[str]) -> bool:
    """Whether what is given to `target` is had by other code than that which has these `names`."""
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(_is_elsewhere(at, names) for at in parts)
        case ast.Starred(value=inner):
            return _is_elsewhere(inner, names)
    return not isinstance(target, ast.Name) and _whole(target) not in names


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
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if (
            method in _OF_TENSORS | _TAKING and _stays(value)
        ):
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
    """Whether `value`, a part of a batch, is only copied, or asked for what all devices have."""
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
    """The largest part of `value` in another shape or format, and what is above that."""
    node: ast.AST = value
    for parent in script.ancestors(value):
        match parent:
            case ast.Subscript(value=whole, ctx=ast.Load()):
                goes_on = whole is node
            case ast.Attribute(attr=name):
                goes_on = name in _OF_TENSORS | _OF_DICTS | _TAKING
            case ast.Call(func=function):
                goes_on = (function is node and _stays(parent)) or last_name(function) == _SAME
            case _:
                goes_on = False
        if not goes_on:
            return node, parent
        node = parent
    raise AssertionError("an expression lies in a statement")


def _stays(call: ast.Call) -> bool:
    """Whether `call` is no `x.type("torch.FloatTensor")`, which is on the host, as `x.type()`."""
    match call:
        case ast.Call(func=ast.Attribute(attr="type"), args=[ast.Attribute(attr=name)]):
            return name.islower()
    return not is_method(call, "type")


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
