"""Which model an optimizer is given the parameters of, as far as its function shows."""

import ast
from collections.abc import Collection, Iterator, Sequence

from autotune.source.loops.loss import given_names
from autotune.source.places import Call
from autotune.source.script import Function, names_in, stored_names

_PARAMETERS = ("parameters", "named_parameters")
_MODULES = ("modules", "named_modules", "children", "named_children")
_GIVING = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For | ast.Expr
_STATEMENTS = _GIVING | ast.Return


def model_of(optimizer: Call, called: Collection[str] = ()) -> ast.expr | None:
    """The expression of the one model that `optimizer` is given parameters of, None for another
    number of them; the lists, dicts, loops and methods by which parameters are put into groups are
    followed. Parts of a module that training calls, as one of `called`, stand for it.
    """
    sources = _sources(optimizer)
    different = _outermost(optimizer, sources)
    if whole := _whole(different, called):
        return whole
    if not any(owner for source in sources for owner in _owners(source)):
        return _only_called_in(sources, called)
    return different[0] if len(different) == 1 and _is_named(different[0]) else None


def named_models(optimizer: Call) -> list[str]:
    """The code of all that `optimizer` is given parameters of; nothing where some have no name."""
    different = _outermost(optimizer, _sources(optimizer))
    known = all(map(_is_named, different))
    return [optimizer.script.code(each) for each in different] if known else []


def _sources(optimizer: Call) -> list[ast.AST]:
    """What `optimizer` is given, and the statements that lead to it."""
    given = [at.value for at in optimizer.node.keywords if at.arg == "params"]
    first = [*optimizer.node.args, *given][:1]
    if not first:
        return []
    return _in_own_method(optimizer, first[0]) or [*first, *_leading_to(optimizer, first[0])]


def _in_own_method(optimizer: Call, given: ast.expr) -> list[ast.AST]:
    """The statements of the method that makes what is `given`, of `self` and its parts alone."""
    match given:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            kinds = (at for at in optimizer.script.ancestors(given) if isinstance(at, ast.ClassDef))
            methods = [at for kind in kinds for at in kind.body if isinstance(at, Function)]
            within = [at for each in methods if each.name == name for at in ast.walk(each)]
            found: list[ast.AST] = [given, *(at for at in within if isinstance(at, _STATEMENTS))]
            roots = {ast.unparse(at).partition(".")[0] for at in _outermost(optimizer, found)}
            return found if roots == {"self"} else []
    return []


def _outermost(optimizer: Call, sources: Sequence[ast.AST]) -> list[ast.expr]:
    """What `sources` take the parameters of, each once, without the variables of their loops."""
    script = optimizer.script
    owners = [owner for source in sources for owner in _owners(source)]
    around = set(script.ancestors(optimizer.node))
    above = [at for source in sources for at in script.ancestors(source) if at not in around]
    loops = [at for at in above if isinstance(at, ast.For)]
    looped = {name for at in (*sources, *loops) for name in _looped(at)}
    outermost = [at for at in owners if not (isinstance(at, ast.Name) and at.id in looped)]
    return list({script.meaning(owner): owner for owner in outermost}.values())


def _looped(source: ast.AST) -> set[str]:
    """The variables that `source`, a loop or what has comprehensions, gives elements one by one."""
    parts = (part for own in _own_parts(source) for part in ast.walk(own))
    loops = [source, *parts] if isinstance(source, ast.For) else parts
    kinds = ast.For | ast.comprehension
    return set[str]().union(*(stored_names(at.target) for at in loops if isinstance(at, kinds)))


def _only_called_in(sources: Sequence[ast.AST], called: Collection[str]) -> ast.expr | None:
    """The one of the `called` that is asked in a way of its own (`model.groups(lr)`)."""
    told = [at for at in sources if not (isinstance(at, ast.stmt) and given_names(at) & {*called})]
    read = [at for source in told for part in _own_parts(source) for at in ast.walk(part)]
    parts = [at for at in read if isinstance(at, ast.Name | ast.Attribute)]
    known = {ast.unparse(at): at for at in parts if ast.unparse(at) in called}
    known.pop("self", None)
    return next(iter(known.values())) if len(known) == 1 else None


def _whole(parts: Sequence[ast.expr], called: Collection[str]) -> ast.expr | None:
    """The innermost of the `called` that all `parts` are attributes of."""
    holders = [[ast.unparse(each) for each in _holders(part)] for part in parts]
    for holder in _holders(parts[0]) if parts else ():
        text = ast.unparse(holder)
        if text != "self" and text in called and all(text in each for each in holders):
            return holder
    return None


def _holders(part: ast.expr) -> Iterator[ast.expr]:
    """`part`, and what it is an attribute of, from the inside out."""
    while isinstance(part, ast.Attribute):
        yield part
        part = part.value
    yield part


def _leading_to(optimizer: Call, given: ast.expr) -> list[ast.stmt]:
    """The statements before `optimizer`, in its function, that `given` comes from."""
    script = optimizer.script
    function = script.function(optimizer.node)
    earlier = [
        at
        for at in ast.walk(function or script.tree)
        if isinstance(at, _GIVING)
        and at.lineno < optimizer.statement.lineno
        and script.function(at) is function
    ]
    looped = {
        name
        for at in earlier
        if isinstance(at, ast.For) and any(_owners(at))
        for name in names_in(at.target)
    }
    found: list[ast.stmt] = []
    waiting: list[ast.expr | ast.stmt] = [given]
    while waiting:
        reader = waiting.pop()
        needed, around = _leads(reader, looped), set(script.ancestors(reader))
        leading = [at for at in earlier if not isinstance(at, ast.For) or at in around]
        more = [at for at in leading if at not in found and given_names(at) & needed]
        found += more
        waiting += more
    return found


def _leads(source: ast.AST, looped: Collection[str]) -> set[str]:
    """The variables that `source` reads; of those it takes parameters of, the `looped` ones."""
    read = set[str]().union(*map(_read, _own_parts(source)))
    owners = {name for owner in _owners(source) for name in names_in(owner)}
    return read - (owners - set(looped))


def _read(node: ast.AST) -> set[str]:
    """The variables of `node`, without those of comprehensions and lambdas in it."""
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.Lambda(args=taken):
            own, outside = {at.arg for at in ast.walk(taken) if isinstance(at, ast.arg)}, set[str]()
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            loops = node.generators
            own = set[str]().union(*(stored_names(each.target) for each in loops))
            outside = _read(loops[0].iter)  # is reckoned before there are any
        case _:
            own, outside = set(), set()
    inside = set[str]().union(*map(_read, ast.iter_child_nodes(node)))
    return (inside - own) | outside


def _own_parts(source: ast.AST) -> list[ast.AST]:
    """What `source` itself reads: of a loop what it goes over, not its body."""
    return [source.iter] if isinstance(source, ast.For) else [source]


def _owners(source: ast.AST) -> Iterator[ast.expr]:
    """The `x` of every `x.parameters()` and `x.modules()` that `source` reads."""
    for node in (at for part in _own_parts(source) for at in ast.walk(part)):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[]) if name in (
                *_PARAMETERS,
                *_MODULES,
            ):
                yield owner


def _is_named(model: ast.expr) -> bool:
    """Whether `model` is a name, attribute or element: the same object each time it is read."""
    return not any(isinstance(at, ast.Call | ast.Lambda | ast.NamedExpr) for at in ast.walk(model))
