"""Which call decides what the training DataLoader is built with."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from autotune.source.calls.keywords import Signature, given_value, operand, spreads_of
from autotune.source.calls.partials import partials, unfollowed
from autotune.source.calls.spreads import may_hide
from autotune.source.named import functions_by_name, values_by_name
from autotune.source.places import Call, loader_call
from autotune.source.program import Program, Refusal
from autotune.source.reach import calls_in, defaults_of
from autotune.source.script import Function, is_method, last_name

# As in torch 2.6 to 2.13.
LOADER = Signature(
    positions=(
        *("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers"),
        *("collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn"),
        *("multiprocessing_context", "generator"),
    ),
    defaults={
        "batch_size": "1",
        "num_workers": "0",
        "pin_memory": "False",
        "drop_last": "False",
        "timeout": "0",
        "prefetch_factor": "None",
        "persistent_workers": "False",
        "multiprocessing_context": "None",
    },
)
_OF_PARTIAL = Signature(positions=("the class", *LOADER.positions), defaults=LOADER.defaults)

_DISPLAYS = ast.List | ast.Tuple | ast.Dict  # none of them a number of samples
# DataLoader refuses these where num_workers is 0.
NEEDS_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """The call that decides one argument of the training DataLoader, and what that call takes."""

    call: Call
    signature: Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class _Derived:
    """A class derived of the one that hands on: its `__init__`, and the call of its base's."""

    constructor: Function
    within: Call
    directly: bool


def building(program: Program, name: str, hand_step: str) -> Building:
    """Where the training DataLoader is given `name`.

    A class of the program's own is given it where an object of it is built, if its `__init__` takes
    it, and else where that hands on to DataLoader.

    Raises:
        Refusal: there is not exactly one such call at its place.
    """
    if (
        program.places.loader_class is None
        or program.places.loader_class.path not in program.scripts
    ):
        return _of_torch(program, name, hand_step)
    places = replace(program.places, loader=program.places.loader_class)
    within = loader_call(replace(program, places=places), hand_step)  # super().__init__(...)
    constructor = within.script.function(within.node)
    own = Building(call=within, signature=LOADER)
    if constructor is None or not _takes(constructor, name, within):
        return own
    own_class = within.script.class_round(within.node)
    named = own_class.name if own_class else "DataLoader"
    try:
        call = loader_call(program, hand_step, named, functools.partial(_is_chosen, program, named))
    except Refusal:
        return own
    signature = _signature(constructor)
    derived = next(_derived(program, call, named), None)
    if derived is None:
        return Building(call=call, signature=signature)
    if _takes(derived.constructor, name, derived.within):
        return Building(call=call, signature=_signature(derived.constructor))
    return Building(call=derived.within, signature=signature) if derived.directly else own


def _is_chosen(program: Program, named: str, call: ast.Call) -> bool:
    """Whether `call` is of a variable that may be the class: `loader = Plain if plain else Own`."""
    if not isinstance(call.func, ast.Name):
        return False
    choices = (
        value
        for script in program.scripts.values()
        for value in values_by_name(script).get(call.func.id, ())
        if isinstance(value, ast.IfExp) and call in script.nodes
    )
    return any(last_name(at) == named for each in choices for at in (each.body, each.orelse))


def _derived(program: Program, call: Call, named: str) -> Iterator[_Derived]:
    """The class, of another name, that `call` builds, where that has an `__init__` of its own."""
    name = call.script.qualified(call.node.func).rpartition(".")[2]
    for script in program.scripts.values() if name != named else ():
        for constructor in functions_by_name(script).get("__init__", ()):
            holder = next(script.ancestors(constructor))
            if not (isinstance(holder, ast.ClassDef) and holder.name == name):
                continue
            for node in calls_in(constructor):
                if is_method(node, "__init__"):
                    within = Call(script=script, node=node, what="super().__init__(...)")
                    directly = named in map(last_name, holder.bases)
                    yield _Derived(constructor=constructor, within=within, directly=directly)


def _of_torch(program: Program, name: str, hand_step: str) -> Building:
    """Where DataLoader itself is called, or else a partial of it.

    Raises:
        Refusal: there is not exactly one such call at its place, or others would change with it.
    """
    made = partials(program)
    by_hand = hand_step.replace("DataLoader(", "functools.partial(DataLoader, ", 1)
    try:
        call = loader_call(program, hand_step, "DataLoader", *(each.builds for each in made))
    except Refusal:
        if one := unfollowed(program, made):
            reason = "the loader is built by a partial of DataLoader, under no name to follow"
            raise one.call.refusal(reason, by_hand) from None
        raise
    found = [each for each in made if each.builds(call.node)]
    if not found:
        return Building(call=call, signature=_of_torch_or_like(call, name, hand_step))
    if len(found) > 1:
        reason = "which of several partials of DataLoader is called here cannot be told"
        raise call.refusal(reason, hand_step)
    (one,) = found
    signature = _completing(one.call)
    if not _decides(call, name, signature) and one.is_for(call.node, program):
        return Building(call=one.call, signature=_OF_PARTIAL)
    if one.is_all_of(program):
        return Building(call=call, signature=signature)
    reason = "other loaders may be built by the same partial of DataLoader"
    raise one.call.refusal(reason, by_hand)


def _of_torch_or_like(call: Call, name: str, hand_step: str) -> Signature:
    """What DataLoader takes; another library's class, whose order is its own (`NeighborLoader`), by
    name alone.

    Raises:
        Refusal: what such a class is given by position may be `name`.
    """
    kind = call.script.qualified(call.node.func).rpartition(".")[2]
    if not kind.endswith("Loader") or kind.endswith("DataLoader"):
        return LOADER
    placed = dict(zip(LOADER.positions, call.node.args, strict=False)).get(name)
    if placed is None or isinstance(placed, _DISPLAYS) or given_by_name(call, name) is not None:
        return replace(LOADER, positions=())
    raise call.refusal(f"what {kind} takes by position cannot be told", hand_step)


def _decides(call: Call, name: str, signature: Signature) -> bool:
    """Whether `call` of a partial is given `name`, or what has to do with workers, itself."""
    names = ("num_workers", *NEEDS_WORKERS, name)
    given = any(given_value(call, each, signature) is not None for each in names)
    return given or bool(spreads_of(call))


def _completing(partial: Call) -> Signature:
    """What a call of `partial` may be given; what it is not, `partial` gives."""
    placed = partial.node.args[1:]
    given = {at.arg: ast.unparse(at.value) for at in partial.node.keywords if at.arg}
    given |= zip(LOADER.positions, map(ast.unparse, placed), strict=False)
    hidden = {
        name: f'{operand(partial.script, spread)}.get("{name}")'
        for spread in spreads_of(partial)
        for name in LOADER.defaults
        if may_hide(partial, name)
    }
    positions = LOADER.positions[len(placed) :]
    return Signature(positions=positions, defaults={**LOADER.defaults, **hidden, **given})


def _takes(constructor: Function, name: str, within: Call) -> bool:
    """Whether `constructor` can be given `name` and hands it on."""
    given = constructor.args
    named = [at.arg for at in (*given.args, *given.kwonlyargs)]
    hands_on = given.kwarg is not None and bool(spreads_of(within))
    return name in named or (hands_on and given_by_name(within, name) is None)


def given_by_name(call: Call, name: str) -> ast.expr | None:
    """The value of the keyword `name` of `call`."""
    return next((at.value for at in call.node.keywords if at.arg == name), None)


def _signature(constructor: Function) -> Signature:
    """What may be given to the class whose `__init__` this is."""
    given = constructor.args
    if given.vararg is not None:
        return LOADER
    positions = [at.arg for at in given.args]
    codes = {name: ast.unparse(value) for name, value in defaults_of(constructor).items()}
    return Signature(positions=tuple(positions[1:]), defaults={**LOADER.defaults, **codes})
