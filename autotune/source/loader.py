"""What the training DataLoader is built with, in the call that decides it."""

import ast
from dataclasses import dataclass, replace

from autotune.source.edits import LoaderArgument
from autotune.source.iteration import WRAPPERS
from autotune.source.keywords import (
    Signature,
    drop_argument,
    given_value,
    operand,
    set_argument,
)
from autotune.source.places import Call, loader_call
from autotune.source.program import Program, Refusal
from autotune.source.script import Function, Script, last_name
from autotune.source.spreads import may_hide

# As in torch 2.6 to 2.13.
LOADER = Signature(
    positions=(
        "dataset",
        "batch_size",
        "shuffle",
        "sampler",
        "batch_sampler",
        "num_workers",
        "collate_fn",
        "pin_memory",
        "drop_last",
        "timeout",
        "worker_init_fn",
        "multiprocessing_context",
        "generator",
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

# DataLoader refuses these where num_workers is 0.
NEEDS_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
# How two of them are written where that may be.
WITHOUT_WORKERS = {"prefetch_factor": "{0} if {1} else None", "persistent_workers": "{1} > 0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """The call that decides one argument of the training DataLoader, and what that call takes."""

    call: Call
    signature: Signature


def loader_argument(program: Program, edit: LoaderArgument) -> Program:
    """`program` with the training DataLoader built with `edit.name=edit.code`.

    Raises:
        Refusal: what it is built with now cannot be told.
    """
    hand_step = f"DataLoader(..., {edit.name}={edit.code})"
    at = building(program, edit.name, hand_step)
    if (edit.name, edit.code) == ("persistent_workers", "True") and _draws_again(program):
        reason = "the loop draws from its loader a second time meanwhile, from the same workers"
        by_hand = f"{hand_step}, with a DataLoader of its own for what the loop draws besides"
        raise at.call.refusal(reason, by_hand)
    code = _beside_workers(at, edit)
    program = program.changed(set_argument(at.call, edit.name, code, at.signature, hand_step))
    if (edit.name, edit.code) == ("num_workers", "0"):
        for name in NEEDS_WORKERS:
            at = building(program, name, hand_step)
            program = program.changed(drop_argument(at.call, name, at.signature, hand_step))
    return program


def overridden(program: Program, edit: LoaderArgument) -> str:
    """The code that gives the training DataLoader its `edit.name`, "" where that is a constant or
    there is none: once `edit` is made, what it reads (an option, a configuration) is not asked.
    """
    at = building(program, edit.name, "")
    value = given_value(at.call, edit.name, at.signature)
    return "" if value is None or isinstance(value, ast.Constant) else at.call.script.code(value)


def _draws_again(program: Program) -> bool:
    """Whether the loop that trains goes over its loader twice, or hands it on while it does."""
    place = program.places.backward
    if place is None or place.path not in program.scripts:
        return False
    script = program.scripts[place.path]
    loops = [
        at
        for at in ast.walk(script.tree)
        if isinstance(at, ast.For) and at.lineno < place.line <= script.last_line(at)
    ]
    if not loops:
        return False
    own = list(map(ast.unparse, _gone_over(loops[-1].iter)))
    inside = (node for at in loops[-1].body for node in ast.walk(at))
    named = {
        ast.unparse(at)
        for at in inside
        if isinstance(at, ast.Name | ast.Attribute) and not _only_asked(script, at)
    }
    return len(set(own)) < len(own) or bool(named & set(own))


def _gone_over(source: ast.expr) -> list[ast.expr]:
    """What `source`, of a loop, draws from: inside enumerate(), zip() and progress bars."""
    match source:
        case ast.Call(func=function, args=[first, *others]):
            name = last_name(function)
            inside = [first, *others] if name == "zip" else [first] if name in WRAPPERS else []
            return [each for at in inside for each in _gone_over(at)]
        case ast.Name() | ast.Attribute():
            return [source]
    return []


def _only_asked(script: Script, loader: ast.expr) -> bool:
    """Whether `loader` is only asked for its length or an attribute."""
    above = next(script.ancestors(loader))
    return isinstance(above, ast.Attribute) or (
        isinstance(above, ast.Call) and last_name(above.func) == "len"
    )


def _beside_workers(at: "Building", edit: LoaderArgument) -> str:
    """The code for `edit` in a call whose number of workers is an option, and may be 0."""
    workers = given_value(at.call, "num_workers", at.signature)
    if edit.name in WITHOUT_WORKERS and workers is None and may_hide(at.call, "num_workers"):
        reason = "the number of workers comes with ** arguments, and may be 0"
        raise at.call.refusal(reason, f"DataLoader(..., {edit.name}={edit.code})")
    if edit.name not in WITHOUT_WORKERS or workers is None or isinstance(workers, ast.Constant):
        return edit.code
    return WITHOUT_WORKERS[edit.name].format(edit.code, operand(at.call.script, workers))


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
        return Building(call=loader_call(program, hand_step), signature=LOADER)
    within = _within_class(program, hand_step)
    constructor = within.script.function(within.node)
    if constructor is not None and _takes(constructor, name, within):
        try:
            call = loader_call(program, hand_step, _class_name(within))
        except Refusal:
            return Building(call=within, signature=LOADER)
        return Building(call=call, signature=_signature(constructor))
    return Building(call=within, signature=LOADER)


def _within_class(program: Program, hand_step: str) -> Call:
    """The `super().__init__(...)` that hands on to DataLoader."""
    places = replace(program.places, loader=program.places.loader_class)
    return loader_call(replace(program, places=places), hand_step)


def _class_name(within: Call) -> str:
    classes = (at for at in within.script.ancestors(within.node) if isinstance(at, ast.ClassDef))
    return next((at.name for at in classes), "DataLoader")


def _takes(constructor: Function, name: str, within: Call) -> bool:
    """Whether `constructor` can be given `name` and hands it on."""
    given = constructor.args
    named = [at.arg for at in (*given.args, *given.kwonlyargs)]
    return name in named or (given.kwarg is not None and given_by_name(within, name) is None)


def given_by_name(call: Call, name: str) -> ast.expr | None:
    """The value of the keyword `name` of `call`."""
    return next((at.value for at in call.node.keywords if at.arg == name), None)


def _signature(constructor: Function) -> Signature:
    """What may be given to the class whose `__init__` this is."""
    given = constructor.args
    if given.vararg is not None:
        return LOADER
    positions = [at.arg for at in given.args]
    defaults = dict(zip(reversed(positions), reversed(given.defaults), strict=False))
    for at, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if value is not None:
            defaults[at.arg] = value
    codes = {name: ast.unparse(value) for name, value in defaults.items()}
    return Signature(positions=tuple(positions[1:]), defaults={**LOADER.defaults, **codes})
