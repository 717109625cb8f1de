"""Where a program goes by its threads, workers or memory, forks, or chooses its GPUs."""

import ast
import re
from collections.abc import Iterator, Sequence, Set

from autotune.source.calls.building import NEEDS_WORKERS
from autotune.source.named import calls_named
from autotune.source.program import Program, first_of
from autotune.source.script import Script, last_name, root_name

_ASKS = ("get_num_threads", "get_num_interop_threads")
_WORKERS = "num_workers"
_LOADER = re.compile(r"loader|(^|_)dl$", re.IGNORECASE)
_OPTIONS = re.compile(r"cfg|conf|arg|opt|param|setting", re.IGNORECASE)
_SAY_HOW = ("get_context", "set_start_method")
_KEEPING = (ast.Name, ast.Assign, ast.Return)
_ASKS_OF_ITSELF = frozenset(("psutil.Process",))
# What forks by itself, where several threads would be waited for in the copy.
_FORKS = frozenset(("fork", "forkpty", "Process", "Pool", "ProcessPoolExecutor"))
# What may be given it without being trained by: it is printed, logged, or written to a file.
_HARMLESS = frozenset(
    (
        *("print", "debug", "info", "warning", "log", "dump", "dumps", "safe_dump", "write"),
        *("set_num_threads", "set_num_interop_threads"),
        *("add_scalar", "add_scalars", "add_text", "log_metric", "log_metrics"),
        *("set_description", "set_description_str", "set_postfix", "set_postfix_str"),
    )
)
# Of psutil and the standard library.
_MEMORY = frozenset(("memory_info", "memory_full_info", "memory_percent", "virtual_memory"))
_USAGE, _PEAK, _PLACE = "getrusage", "ru_maxrss", 2  # which tells of time and else, too
_PROFILER = "memory_profiler.memory_usage"  # a table's `memory_usage()` is of the table alone
# Files of the kernel's, and lines in them.
_KERNEL = ("/statm", "/smaps", "smaps_rollup", "/proc/self/status", "/proc/meminfo", "VmRSS")
_CHOICE = "CUDA_VISIBLE_DEVICES"
_FORKING = "multiprocessing"
# What starts a process in whatever way, or says how, where CUDA must not be awake yet. Workers of a
# loader are forked with it awake anyway.
_STARTS = frozenset(
    (
        *("fork", "forkpty", "Process", "Pool", "Popen", "ProcessPoolExecutor"),
        *("spawn", "start_processes", "get_context", "set_start_method"),
    )
)


def counted_by_threads(program: Program) -> str:
    """Where torch is asked for the number of its threads, other than to tell it or set it."""
    asked = [
        (script, call)
        for script in program.scripts.values()
        if any(name in script.text for name in _ASKS)
        for call in script.calls
        if script.qualified(call.func).rpartition(".")[2] in _ASKS
    ]
    return _first_heeded(program, asked)


def counted_by_workers(program: Program) -> str:
    """Where a loader's workers are counted, other than to tell it or to build another so."""
    asked = [(script, at) for script, at in program.nodes() if _asks_for_workers(at)]
    files = {script for script, _ in asked}
    passed = {part for script in files for at in script.nodes for part in _passed(at)}
    return _first_heeded(program, [each for each in asked if each[1] not in passed])


def _asks_for_workers(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=owner, attr=name, ctx=ast.Load()) if name == _WORKERS:
            holder = owner.value if isinstance(owner, ast.Attribute) else owner
            is_option = _OPTIONS.search(last_name(holder))
            return bool(_LOADER.search(last_name(owner))) and not is_option
    return False


def _passed(node: ast.AST) -> Iterator[ast.AST]:
    """What another loader is built with as many by, is made sure of, or is noted."""
    match node:
        case ast.keyword(arg=name, value=value) if name in (_WORKERS, *NEEDS_WORKERS):
            yield from ast.walk(value)
        case ast.Assert(test=test):
            yield from ast.walk(test)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == _WORKERS:
                    yield from ast.walk(value)


def forked_with_one(program: Program) -> str:
    """Where a program that sets one thread itself forks processes: more would wait there for ever,
    as those of OpenMP stay behind in the first one.
    """
    calls = list(program.calls())
    if not any(_sets_one(call) for _, call in calls) or any(_spawns(call) for _, call in calls):
        return ""
    classes = {at.name for _, at in program.classes()}
    own = [call for _, call in calls if isinstance(call.func, ast.Name) and call.func.id in classes]
    forks = ((at, call) for at, call in calls if last_name(call.func) in _FORKS and call not in own)
    return first_of(
        (at, call) for at, call in forks if at.qualified(call.func) not in _ASKS_OF_ITSELF
    )


def _sets_one(call: ast.Call) -> bool:
    match call:
        case ast.Call(func=func, args=[ast.Constant(value=1)]):
            return last_name(func) == "set_num_threads"
    return False


def _spawns(call: ast.Call) -> bool:
    """Whether it says that processes begin anew."""
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "method")]
    names = [at.value for at in given if isinstance(at, ast.Constant)]
    return last_name(call.func) in _SAY_HOW and names in (["spawn"], ["forkserver"])


def _first_heeded(program: Program, asked: Sequence[tuple[Script, ast.AST]]) -> str:
    """The first of what is `asked` that is not only told; what a file says is read first."""
    told = only_told(program) if asked else set[ast.AST]()
    heeded = (each for each in asked if isinstance(each[1], ast.Constant) or each[1] not in told)
    return first_of(heeded)


def only_told(program: Program) -> set[ast.AST]:
    """What is inside a text or a call that tells or sets it, and what is kept for those alone."""
    found, keeping = set[ast.AST](), list[tuple[Script, list[ast.AST]]]()
    for script in program.scripts.values():
        keeping.append((script, [at for at in script.nodes if isinstance(at, _KEEPING)]))
        told: list[ast.AST] = [at for at in script.calls if last_name(at.func) in _HARMLESS]
        told += [at for at in script.nodes if isinstance(at, ast.JoinedStr)]
        found.update(part for at in told for part in ast.walk(at))
    others = [each for script in program.scripts.values() for each in _of_others(script)]
    while True:
        used = {name for node, name in others if node not in found}
        more = {at for some in keeping for at in _kept_for(program, *some, found, used)}
        if more <= found:
            return found
        found |= more


def _of_others(script: Script) -> Iterator[tuple[ast.expr, str]]:
    """What `script` reads of other files, with its name there; all, where it imports `*`."""
    everything = "*" in script.imports
    for node in script.nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            root = root_name(node)
            if root in script.imports or (everything and root):
                yield node, script.qualified(node).rpartition(".")[2]


def _kept_for(
    program: Program,
    script: Script,
    nodes: Sequence[ast.AST],
    found: Set[ast.AST],
    used: Set[str],
) -> set[ast.AST]:
    """What `nodes` keep or return that only what is `found` uses, here or where it is `used`."""
    kept = set[ast.AST]()
    names = [at for at in nodes if isinstance(at, ast.Name)]
    loaded = [at for at in names if isinstance(at.ctx, ast.Load)]
    used = used | {at.id for at in loaded if at not in found}
    is_told = {at.id for at in loaded} - used
    for at in nodes:
        match at:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in used:
                kept.update(ast.walk(value) if name in is_told else [value])
            case ast.Return(value=ast.expr() as value) if _is_told(program, script, at, found):
                kept.update(ast.walk(value))
    return kept


def _is_told(program: Program, script: Script, returned: ast.Return, told: Set[ast.AST]) -> bool:
    """Whether all calls of the function that gives this back are among what is `told`."""
    function = script.function(returned)
    name = function.name if function is not None else ""
    calls = [call for _, call in calls_named(program, name)]
    return bool(calls) and all(call in told for call in calls)


def memory_asked(program: Program) -> str:
    """Where the program asks how much memory there is, or it has, other than to tell it."""
    return _first_heeded(program, list(_asked(program)))


def _asked(program: Program) -> Iterator[tuple[Script, ast.expr]]:
    """What asks for it, or names where the kernel says it."""
    for script, node in program.nodes():
        match node:
            case ast.Call(func=function) if last_name(function) == _USAGE:
                yield from ((script, at) for at in _uses_of(script, node) if _may_ask(script, at))
                continue
            case ast.Call(func=function):
                asks = last_name(function) in _MEMORY or script.qualified(function) == _PROFILER
            case ast.Attribute(attr=name):
                asks = name == _PEAK
            case ast.Constant(value=str(text)):
                asks = len(text) < 100 and any(each in text for each in _KERNEL)
            case _:
                continue
        if asks:
            yield script, node


def _uses_of(script: Script, usage: ast.Call) -> list[ast.expr]:
    """Where the file has what `usage` gives: there, or under the name that it is given."""
    match next(script.ancestors(usage)):
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            named = (at for at in script.nodes if isinstance(at, ast.Name | ast.Attribute))
            loaded = (at for at in named if isinstance(at.ctx, ast.Load))
            return [at for at in loaded if last_name(at) == last_name(target)]
    return [usage]


def _may_ask(script: Script, usage: ast.expr) -> bool:
    """Whether another part of `usage` than of time and the like is taken, but by its name."""
    match next(script.ancestors(usage)):
        case ast.Attribute(attr=name):
            return not name.startswith("ru_")
        case ast.Subscript(slice=ast.Constant(value=place)):
            return place == _PLACE
    return True


def must_come_before_cuda(program: Program, script: Script, line: int) -> bool:
    """Whether the program may choose its GPUs, or start processes, after `line` of `script`."""
    scripts = program.scripts.values()
    texts = [ast.unparse(each.tree) for each in scripts]  # no comments
    forks = any(_FORKING in text for text in texts) and any(
        _STARTS & names for each in scripts for names in map(_names_of_it, each.nodes)
    )
    own = script if script.path == program.main else None
    return forks or not all(
        each is own and each.function(at) is None and each.statement(at).lineno <= line
        for each in scripts
        for at in _choices(each)
    )


def _names_of_it(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {name}
        case ast.alias(name=name):
            return {name.rpartition(".")[2]}
    return set()


def _choices(script: Script) -> Iterator[ast.AST]:
    """Where `script` names the variable that chooses the GPUs."""
    for node in script.nodes:
        match node:
            case ast.Constant(value=str(text)) if _CHOICE in text:
                yield node
            case ast.keyword(arg=name) if name == _CHOICE:
                yield node
