"""Where a training catches what samples raise: a worker gives it with its traceback as a text."""

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Sequence

from autotune.source.calls.writes import assigned
from autotune.source.loops.around_training import own_loops, running
from autotune.source.program import Program
from autotune.source.reach import calls_in, functions_named, reached
from autotune.source.refusals.numbering import SAYING
from autotune.source.script import Function, Script, is_method, last_name

# What is done with an exception that does not go by what it holds.
_SAYING = SAYING | {"print_exc", "print_exception"}
# What goes by the text that it is given: it has each but once, or counts them.
_TELLING = frozenset(("add", "setdefault", "update"))
# What holds a text as it is.
_HOLDING = (ast.BinOp, ast.Dict, ast.JoinedStr, ast.keyword, ast.List, ast.Tuple)
# What makes no samples, where the next of it is asked for.
_PARTS = frozenset(("parameters", "named_parameters", "modules", "children", "buffers"))
_LOADER = re.compile(r"loader|batches|_iter\b", re.IGNORECASE)
# By which a training catches that memory does not suffice for a step.
_OF_STEPS = frozenset(("OutOfMemoryError",))
# Who catches these also catches what comes in the place of any other.
_ALL = frozenset(("BaseException", "Exception", "RuntimeError"))
# json.JSONDecodeError and UnicodeDecodeError are ValueErrors, and made of more than a text.
_LOST = frozenset(("ValueError", "UnicodeError", "UnicodeDecodeError", "UnicodeEncodeError"))
_MAKING = frozenset(("__init__", "__new__"))
_KNOWN = {
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
} - _LOST


def caught_of_samples(program: Program) -> str:
    """Where drawing batches is guarded by kinds that no worker gives on, or read for content."""
    inner, outer = own_loops(program)
    ran = running(program, [*inner, *outer])
    own = {kind.name for _, kind in program.classes()}
    known = (_KNOWN | _OF_STEPS | own) - _lost_kinds(program)
    known |= _raised_in(program, [*inner, *outer])
    drawing = running(program, inner, strictly=True)
    for script, node in program.nodes():
        told = next(_telling(program, script, node, known, goes_on=node in ran), None)
        if told is not None and _draws(program, node, inner, drawing):
            return script.at(told)
    return ""


def _telling(
    program: Program, script: Script, node: ast.AST, known: Collection[str], *, goes_on: bool
) -> Iterator[ast.expr]:
    """What of `node`, where it catches any, tells one exception from another."""
    match node:
        case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers):
            for handler in handlers:
                kinds = handler.type
                yield from _unknown(kinds.elts if isinstance(kinds, ast.Tuple) else [kinds], known)
                yield from _read(program, script, handler) if goes_on else ()
        case ast.With(items=items):
            for call in (call for item in items for call in calls_in(item.context_expr)):
                yield from _unknown(call.args, known) if last_name(call.func) == "suppress" else ()


def _unknown(kinds: Collection[ast.expr | None], known: Collection[str]) -> Iterator[ast.expr]:
    for kind in kinds:
        if kind is not None and last_name(kind) not in known:
            yield kind


def _read(program: Program, script: Script, handler: ast.ExceptHandler) -> Iterator[ast.expr]:
    """Where `handler` does more with what it caught than to say, write or raise it."""
    for node in (node for statement in handler.body for node in ast.walk(statement)):
        match node:
            case ast.Call(func=by) if last_name(by) == "exc_info":
                yield node
            case ast.Name(id=name) if name == handler.name:
                around = list(script.ancestors(node))
                around = around[: around.index(handler)]
                if not any(map(_is_said, around)) and not _is_written(program, around):
                    yield node


def _is_said(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return True
        case ast.Call(func=by):
            return last_name(by) in _SAYING
    return False


def _is_written(program: Program, around: Sequence[ast.AST]) -> bool:
    """Whether only the text is put somewhere, or given to no function of the program."""
    match [at for at in around if not isinstance(at, _HOLDING)]:
        case [ast.FormattedValue() | ast.Call(func=ast.Name(id="str" | "repr")), *above]:
            pass
        case _:
            return False
    match above:
        case [ast.Assign(targets=[ast.Subscript() | ast.Attribute()]), *_]:
            return True
        case [ast.Call(func=by), ast.Expr(), *_]:
            name = last_name(by)
            return name not in _TELLING and not any(functions_named(program, name))
    return False


def _draws(
    program: Program, node: ast.AST, inner: Collection[ast.AST], drawing: Collection[ast.AST]
) -> bool:
    """Whether what `node` guards draws batches: a loop of training, or the next of a loader."""
    assert isinstance(node, ast.Try | ast.TryStar | ast.With)
    behind = reached(program, node.body, strictly=True)
    for at in (part for each in behind for part in ast.walk(each)):
        match at:
            case ast.For(iter=source):
                yields = any(isinstance(each, ast.Yield) for each in ast.walk(at))
                if at in inner or (_is_loader(source) and yields):
                    return True
            case ast.Call(func=ast.Name(id="next"), args=[of, *_]):
                parts = any(last_name(call.func) in _PARTS for call in calls_in(of))
                if not parts and (at in drawing or _is_loader(of)):
                    return True
            case ast.Call() if is_method(at, "__next__"):
                return True
    return False


def _is_loader(source: ast.expr) -> bool:
    return bool(_LOADER.search(ast.unparse(source)))


def _raised_in(program: Program, loops: Collection[ast.AST]) -> set[str]:
    """What the `loops` of the training raise themselves, and no other code, as samples would."""
    inside = {node for loop in loops for node in ast.walk(loop)}
    within, elsewhere = set[str](), set[str]()
    for _, node in program.nodes():
        match node:
            case ast.Raise(exc=ast.Call(func=kind)) | ast.Raise(exc=ast.expr() as kind):
                (within if node in inside else elsewhere).add(last_name(kind))
    return within - elsewhere - _KNOWN - _LOST


def _lost_kinds(program: Program) -> set[str]:
    """The classes of the program that cannot be made of one text, and what these are kinds of."""
    classes = {kind.name: kind for _, kind in program.classes()}
    lost = {name for name in classes if not _is_made_of_a_text(classes, name)}
    waiting = list(lost)
    while waiting:
        bases = classes[waiting.pop()].bases
        more = {last_name(base) for base in bases} - lost - _ALL
        lost |= more
        waiting += more & classes.keys()
    return lost


def _is_made_of_a_text(classes: dict[str, ast.ClassDef], name: str) -> bool:
    """Whether the exception called `name` may be made as `name("text")`."""
    kind = classes.get(name)
    if kind is None:
        return name in _KNOWN or name in _LOST - {"UnicodeDecodeError", "UnicodeEncodeError"}
    makers = [at for at in kind.body if isinstance(at, Function) and at.name in _MAKING]
    names = {last_name(target) for at in kind.body for target in assigned(at)}
    if kind.decorator_list or "message" in names:  # a dataclass; torch gives `message=` to these
        return False
    if makers:
        return all(map(_takes_a_text, makers))
    others = {each: at for each, at in classes.items() if each != name}  # `Error(library.Error)`
    return all(_is_made_of_a_text(others, last_name(base)) for base in kind.bases)


def _takes_a_text(maker: Function) -> bool:
    """Whether `maker`, a method, can be called with one argument."""
    given = maker.args
    places = [*given.posonlyargs, *given.args][1:]
    needed = len(places) - len(given.defaults)
    most = len(places) if given.vararg is None else needed + 1
    return needed <= 1 <= most and None not in given.kw_defaults
