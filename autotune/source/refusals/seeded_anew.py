"""Where a program begins its random numbers anew for each epoch, always with the same."""

import ast
from collections.abc import Collection, Iterator, Set

from autotune.source.calls.writes import stored_in
from autotune.source.loops.around_training import own_loops, running_within
from autotune.source.named import calls_named
from autotune.source.program import Program, holds
from autotune.source.reach import argument, calls_in, defaults_of, is_bound
from autotune.source.script import Function, Script, given_to, is_none, last_name

_ALL = ("random", "numpy.random", "torch")
# Which random numbers a function begins anew.
_SEEDS = {
    "random.seed": ("random",),
    "random.setstate": ("random",),
    "numpy.random.seed": ("numpy.random",),
    "numpy.random.set_state": ("numpy.random",),
    "torch.manual_seed": ("torch",),
    "torch.random.manual_seed": ("torch",),
    "torch.set_rng_state": ("torch",),
}
_LIBRARIES = ("seed_everything", "set_seed")  # lightning's, accelerate's, transformers'
_FORKING = {"fork_rng": ("torch",), "isolate_rng": _ALL}  # which they put back in the end
LOADER = "loader"


def seeded_anew(program: Program) -> dict[str, str]:
    """Which random numbers ("random", "numpy.random", "torch", "loader" of a DataLoader's own
    generator) begin anew with the same seed for each epoch: the file and line of each.
    """
    inner, outer = own_loops(program)
    if not outer:
        return {}
    ran = running_within(program, outer[:1]) - {node for loop in inner for node in ast.walk(loop)}
    moving = set(map(last_name, stored_in(ast.walk(outer[0]))))
    counted = (at.target for at in ran if isinstance(at, ast.AugAssign))
    moving |= {at.attr for at in counted if isinstance(at, ast.Attribute)}
    loaders = _loaders(program)
    generators = {last_name(at.value) for call in loaders for at in call.keywords if _is_own(at)}
    found = dict[str, str]()
    for script, call in program.calls():
        seeded = _seeded(script, call, loaders, generators) if call in ran else ()
        if not seeded or _is_put_back(script, call) or _is_forked(script, call, seeded):
            continue
        if not _moves(program, script, call, ran, moving):
            place = script.at(call)
            found |= {each: place for each in seeded if each not in found}
    return found


def _loaders(program: Program) -> set[ast.Call]:
    """The calls that build loaders, by names; of the training's own name only those that do."""
    calls = [
        (script, call)
        for script, call in program.calls()
        if "loader" in last_name(call.func).lower()
    ]
    seen = [
        (script, call) for script, call in calls if holds(script, call, [program.places.loader])
    ]
    names = {last_name(call.func) for _, call in seen}
    known = {each for script, call in seen for each in _known_by(script, call)}
    return {
        call
        for script, call in calls
        if last_name(call.func) not in names or not known.isdisjoint(_known_by(script, call))
    }


def _known_by(script: Script, call: ast.Call) -> Iterator[tuple[object, ...]]:
    """What a call shares with `call` that builds the same anew: statement, or variable."""
    statement = script.statement(call)
    yield (script.meaning(statement),)
    for target in getattr(statement, "targets", ()):
        kind = Function if isinstance(target, ast.Name) else ast.ClassDef
        holder = next((at for at in script.ancestors(call) if isinstance(at, kind)), None)
        yield (script.path, holder, ast.unparse(target))


def _is_own(given: ast.AST | None) -> bool:
    """Whether it is the generator that a call is `given`."""
    return isinstance(given, ast.keyword) and given.arg == "generator"


def _seeded(
    script: Script, call: ast.Call, loaders: Set[ast.Call], generators: Set[str]
) -> tuple[str, ...]:
    name = script.qualified(call.func)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "manual_seed":
        above, around, *_ = (*script.ancestors(call), None)
        names = [call.func.value, *getattr(above, "targets", ())]
        if (_is_own(above) and around in loaders) or not generators.isdisjoint(
            filter(None, map(last_name, names))
        ):
            return (LOADER,)
    own = ast.unparse(call.func).partition(".")[0] not in script.imports
    if name.rpartition(".")[2] in _LIBRARIES and not own:
        return _ALL
    is_new = name.endswith(".seed") and all(map(is_none, given_to(call)))  # of the system's
    return () if is_new else _SEEDS.get(name, ())


def _is_put_back(script: Script, call: ast.Call) -> bool:
    """Whether its function gets the random state, and sets it again in the end."""
    calls = [*calls_in(script.function(call) or script.tree)]
    states = {
        last_name(target)
        for at in ast.walk(script.function(call) or script.tree)
        if isinstance(at, ast.Assign) and any(_is_state(each, "get") for each in calls_in(at.value))
        for target in at.targets
    }
    given = (each for at in calls if _is_state(at, "set") for each in at.args)
    return any(last_name(each) in states for each in given)


def _is_forked(script: Script, call: ast.Call, seeded: tuple[str, ...]) -> bool:
    """Whether `call` stands in a `with` block that puts back what is `seeded`."""
    items = [at for each in script.ancestors(call) for at in getattr(each, "items", ())]
    calls = (at.context_expr for at in items if isinstance(at, ast.withitem))
    names = {last_name(at.func) for at in calls if isinstance(at, ast.Call)}
    return any(set(seeded) <= set(_FORKING.get(name, ())) for name in names)


def _is_state(call: ast.Call, prefix: str) -> bool:
    name = last_name(call.func)
    return name.startswith(prefix) and name.endswith("state")


def _moves(
    program: Program,
    script: Script,
    call: ast.Call,
    ran: Collection[ast.AST],
    moving: Collection[str],
) -> bool:
    """Whether what `call` is given is another in each epoch, by a loop or its function's caller."""
    leaves = [at for each in given_to(call) for at in _leaves(each)]
    names = {at.id for at in leaves if isinstance(at, ast.Name)}
    if any(last_name(at) in moving for at in leaves):
        return True
    function = script.function(call)
    if function is None:
        return False
    for name in names:
        given = [each for _, each in _given(program, script, function, name, ran)]
        if any(last_name(at) in moving for each in given for at in _leaves(each)):
            return True
    return any(_is_left_none(program, script, function, name, ran) for name in names)


def _is_left_none(
    program: Program,
    script: Script,
    function: Function,
    name: str,
    ran: Collection[ast.AST],
    known: frozenset[Function] = frozenset(),
) -> bool:
    """Whether the parameter `name` is None in all that runs: nothing is given, or such a one."""
    if not is_none(defaults_of(function).get(name)) or function in known:
        return False
    for by, each in _given(program, script, function, name, ran):
        above = by.function(each)
        if not (
            isinstance(each, ast.Name)
            and above is not None
            and _is_left_none(program, by, above, each.id, ran, known | {function})
        ):
            return False
    return True


def _given(
    program: Program, script: Script, function: Function, name: str, ran: Collection[ast.AST]
) -> Iterator[tuple[Script, ast.expr]]:
    """What the calls of `function` that run give for it, and where."""
    bound = is_bound(script, function)
    for other, call in calls_named(program, function.name):
        if call in ran:
            told = argument(call, function, name, bound=bound)
            yield from [(other, told)] if told is not None else []


def _leaves(given: ast.expr) -> Iterator[ast.expr]:
    return (at for at in ast.walk(given) if isinstance(at, ast.Name | ast.Attribute))
