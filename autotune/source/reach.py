"""What a program's functions call, told by names alone: who comes to call one, what one reaches."""

import ast
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence

from autotune.source.named import calls_named, functions_by_name
from autotune.source.program import Program
from autotune.source.script import Function, Script, last_name, root_name

CALLED = ("forward", "__call__")  # where an object of a class is called
_RUNNING = ("__init__", "__enter__", "__exit__", *CALLED)  # where a class is, or an object of it


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """The calls in `node`, itself included."""
    return (at for at in ast.walk(node) if isinstance(at, ast.Call))


def argument_code(call: ast.Call, script: Script, function: Function, name: str) -> str:
    """The code that `call` of `function` gives for `name`: all of a call that does not tell, "" of
    one that gives a constant, or nothing, as `model.train()` beside a function `train`.
    """
    told = argument(call, function, name, bound=is_bound(script, function))
    return "" if told is None or isinstance(told, ast.Constant) else ast.unparse(told)


def argument(call: ast.Call, function: Function, name: str, *, bound: bool) -> ast.expr | None:
    """What `call` of `function`, which is given its object or class first if it is `bound`, gives
    for `name`: `call` itself where that is not told, None where it gives nothing.
    """
    if any(isinstance(at, ast.Starred) for at in call.args):
        return call
    for keyword in call.keywords:
        if keyword.arg in (name, None):
            return keyword.value if keyword.arg else call
    places = [at.arg for at in (*function.args.posonlyargs, *function.args.args)]
    index = places.index(name) - bound if name in places else len(call.args)
    if bound and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        index += call.func.value.id[:1].isupper()  # Class.method(self, ...)
    return call.args[index] if 0 <= index < len(call.args) else None


def called_as(script: Script, function: Function) -> str:
    """The name by which `function` of `script` is called: of an `__init__` its class's."""
    holder = next(script.ancestors(function), None)
    if function.name == "__init__" and isinstance(holder, ast.ClassDef):
        return holder.name
    return function.name


def told(
    program: Program, script: Script, function: Function, name: str
) -> Iterator[tuple[Script, ast.expr]]:
    """What the calls of `function`, of `script`, give for its parameter `name`, and where."""
    bound = is_bound(script, function)
    for other, call in calls_named(program, called_as(script, function)):
        value = argument(call, function, name, bound=bound)
        if value is not None and value is not call:
            yield other, value


def defaults_of(function: Function) -> dict[str, ast.expr]:
    """What the parameters of `function` are where nothing is given for them, by name."""
    arguments = function.args
    places = [*arguments.posonlyargs, *arguments.args]
    with_one = places[len(places) - len(arguments.defaults) :]
    found = {at.arg: value for at, value in zip(with_one, arguments.defaults, strict=True)}
    only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found | {at.arg: value for at, value in only if value is not None}


def functions_named(program: Program, name: str) -> Iterator[tuple[Script, Function]]:
    """The functions and methods of the program that have that name."""
    for script in program.scripts.values():
        for function in functions_by_name(script).get(name, ()):
            yield script, function


def is_bound(script: Script, function: Function) -> bool:
    """Whether `function` is a method, given its object or class first."""
    of_class = isinstance(next(script.ancestors(function), None), ast.ClassDef)
    return of_class and "staticmethod" not in decorators(function)


def decorators(function: Function) -> set[str]:
    """The last names of what decorates `function`, called or not."""
    return {last_name(getattr(at, "func", at)) for at in function.decorator_list}


def callers(program: Program, name: str) -> set[str]:
    """`name` and the names of all functions of the program that come to call one of that name."""
    calls: dict[str, set[str]] = {}
    for script in program.scripts.values():
        for caller, called in _called_by_functions(script).items():
            calls.setdefault(caller, set()).update(called)
    names = {name}
    while more := {caller for caller, called in calls.items() if called & names} - names:
        names |= more
    return names


@functools.lru_cache(maxsize=1024)  # it is asked for each rule, and a Script does not change
def _called_by_functions(script: Script) -> Mapping[str, frozenset[str]]:
    """The names that the functions of `script` call, by their own."""
    return {
        name: frozenset(last_name(call.func) for each in functions for call in calls_in(each))
        for name, functions in functions_by_name(script).items()
    }


def reached(
    program: Program, sources: Sequence[ast.AST], *, strictly: bool = False
) -> list[ast.AST]:
    """`sources` and what stands behind the names that they call, and so on: functions and classes
    of the program, and the values given to variables and attributes. `strictly` without what these
    values were made by: of `model = build(args)` what a call of `model` runs, and not `build`; nor
    what `super().__init__()` may be of other classes; nor, of `data.shuffle()`, a function of that
    name, unless `data` is the name of what some file imports; nor, of `model.train()`, any method,
    where a `model` is called, or gives its weights, as no trainer is or does.
    """
    called = functools.partial(_called, _imported(program))
    if strictly:
        called = functools.partial(_called_by_kind, _imported(program), _models(program))
    known, waiting = {".__init__"} if strictly else set[str](), called(sources)
    found, behind_names = dict.fromkeys(sources), _behind_made if strictly else _behind
    while waiting := waiting - known:
        known |= waiting
        behind = [
            node
            for script in program.scripts.values()
            for name in waiting & behind_names(script).keys()
            for node in behind_names(script)[name]
            if node not in found
        ]
        found |= dict.fromkeys(behind)
        waiting = called(behind)
    return list(found)


def _imported(program: Program) -> frozenset[str]:
    return frozenset(name for script in program.scripts.values() for name in script.imports)


def _models(program: Program) -> frozenset[str]:
    """The names of what is called, or asked for its weights."""
    found = set[str]()
    for _, call in program.calls():
        match call.func:
            case (
                ast.Name(id=name)
                | ast.Attribute(value=ast.Name(id="self"), attr=name)
                | ast.Attribute(attr="parameters", value=ast.Name(id=name))
                | ast.Attribute(attr="parameters", value=ast.Attribute(attr=name))
            ):
                found.add(name)
    return frozenset(found)


def _called(imported: Collection[str], nodes: Sequence[ast.AST]) -> set[str]:
    """The names that `nodes` call; of classes their bases too, whose methods `super()` calls."""
    names = {
        f"{'.' * (_sets_mode(call) != '' and not _is_imported(imported, call))}"
        f"{last_name(call.func)}"
        for call in _calls(nodes)
    }
    classes = (node for node in nodes if isinstance(node, ast.ClassDef))
    return (names | {last_name(base) for node in classes for base in node.bases}) - {""}


def _called_by_kind(
    imported: Collection[str], models: Collection[str], nodes: Sequence[ast.AST]
) -> set[str]:
    """The names that `nodes` call: ".name" as an attribute, "name" as itself or a module's."""
    found = set[str]()
    for call in _calls(nodes):
        name, of_object = last_name(call.func), isinstance(call.func, ast.Attribute)
        of_module = of_object and _is_imported(imported, call)
        if of_module or _sets_mode(call) not in models:
            found |= {f".{name}"} if of_object else {name}
        found |= {name} if of_module else set()
    classes = (node for node in nodes if isinstance(node, ast.ClassDef) and _builds_a_base(node))
    return (found | {last_name(base) for node in classes for base in node.bases}) - {""}


def _sets_mode(call: ast.Call) -> str:
    """`model` where it may be `model.train()`, and is no function of that name; else ""."""
    match call:
        case ast.Call(
            func=ast.Attribute(attr="train" | "eval", value=owner), args=[] | [ast.Constant()]
        ) if not call.keywords:
            return last_name(owner)
    return ""


def _is_imported(imported: Collection[str], call: ast.Call) -> bool:
    """Whether whose attribute is called goes by a name that some file imports."""
    return root_name(call.func) in imported


def _builds_a_base(kind: ast.ClassDef) -> bool:
    """Whether a base's `__init__` runs where `kind` is called, as its own or by that."""
    own = [at for at in kind.body if isinstance(at, Function) and at.name == "__init__"]
    return not own or any(map(_is_of_a_base, calls_in(own[0])))


def _calls(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    parts = (part for node in nodes for part in running_parts(node))
    return (call for part in parts for call in calls_in(part) if not _is_of_a_base(call))


def _is_of_a_base(call: ast.Call) -> bool:
    """Whether it is `super().__init__()` or `Base.__init__(self)`."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
            return True
        case ast.Attribute(value=owner, attr="__init__"):
            return last_name(owner)[:1].isupper()
    return False


def running_parts(node: ast.AST) -> list[ast.AST]:
    """What runs where `node`, a class, is called, or an object of it; all of anything else."""
    if not isinstance(node, ast.ClassDef):
        return [node]
    return [at for at in node.body if not isinstance(at, Function) or at.name in _RUNNING]


def run_with(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and what runs with it: not the functions and classes that it defines."""
    yield node
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, Function | ast.ClassDef):
            yield from run_with(inner)


def own_code(scope: ast.AST) -> Iterator[ast.AST]:
    """What is in a function or a file, but for what is in functions and classes in that."""
    for inner in ast.iter_child_nodes(scope):
        yield inner
        if not isinstance(inner, Function | ast.ClassDef | ast.Lambda):
            yield from own_code(inner)


@functools.lru_cache(maxsize=1024)
def _behind(script: Script) -> Mapping[str, Sequence[ast.AST]]:
    """What stands behind each name: definitions and given values; of methods under ".name" too."""
    found: dict[str, list[ast.AST]] = {}
    for node in script.nodes:
        if isinstance(node, Function | ast.ClassDef):
            found.setdefault(node.name, []).append(node)
            if isinstance(node, Function) and is_bound(script, node):
                found.setdefault(f".{node.name}", []).append(node)
        elif isinstance(node, ast.Assign):
            for name in set(map(last_name, node.targets)):
                found.setdefault(name, []).append(node.value)
    return found


@functools.lru_cache(maxsize=1024)
def _behind_made(script: Script) -> Mapping[str, Sequence[ast.AST]]:
    """The same, with what a call of a value runs in the place of the value; under `build()` what a
    call of that runs which `build` gives back. Methods and attributes stand under ".name".
    """
    found: dict[str, list[ast.AST]] = {}
    for node in script.nodes:
        within = isinstance(next(script.ancestors(node), None), ast.ClassDef)
        if isinstance(node, Function):
            found.setdefault(f"{'.' * within}{node.name}", []).append(node)
            values = (at.value for at in ast.walk(node) if isinstance(at, ast.Return) and at.value)
            found.setdefault(f"{node.name}()", []).extend(
                run for at in values for run in _run_by(at)
            )
        elif isinstance(node, ast.ClassDef):
            found.setdefault(node.name, []).append(node)
            called = (at for at in node.body if isinstance(at, Function) and at.name in CALLED)
            found.setdefault(f"{node.name}()", []).extend(called)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                of_object = within or isinstance(target, ast.Attribute)
                name = f"{'.' * of_object}{last_name(target)}"
                found.setdefault(name, []).extend(_run_by(node.value))
    return found


def _run_by(value: ast.expr) -> Iterator[ast.AST]:
    """What a call of `value` runs, as a call of its name, or of what another call makes."""
    match value:
        case ast.Lambda():
            yield value
        case ast.Name() | ast.Attribute():
            yield ast.Call(func=value, args=[], keywords=[])
        case ast.IfExp(body=one, orelse=other):
            yield from (*_run_by(one), *_run_by(other))
        case ast.Call(func=by, args=[first, *_]) if last_name(by) == "partial":
            yield from _run_by(first)
        case ast.Call(func=by) if name := last_name(by):
            yield ast.Call(func=ast.Name(id=f"{name}()"), args=[], keywords=[])
