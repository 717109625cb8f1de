"""The loops round a program's training step, and what of the program runs in them."""

import ast
import re
from collections.abc import Collection, Iterator

from autotune.source.edits import Place
from autotune.source.named import calls_named
from autotune.source.program import Program
from autotune.source.reach import callers, is_bound, reached, run_with, running_parts
from autotune.source.script import (
    Function,
    Script,
    covers,
    first_line,
    last_name,
    names_in,
    stored_names,
)

Loop = ast.For | ast.While

# Classes whose methods a framework's trainer calls by these names, and when it does so in each
# step: what it calls otherwise comes between them.
_OF_FRAMEWORKS = re.compile(r"Callback|Trainer|Lightning(Data)?Module")
_CALLED_BACK = re.compile(
    r"on_\w+|(before|after)_(train|epoch|batch|step)|\w+_step|compute_loss|\w+_epoch_end|forward"
)
_IN_EACH_STEP = re.compile(r"batch|step|backward|optimizer|zero_grad|loss|forward")
_IN_NO_STEP = re.compile(r"val|test|predict")
_ONCE = re.compile(r"on_(fit|train)_(start|begin|end)|on_init_end|on_sanity_check\w*")
# What is called of a model, or with it, as its training begins.
_BEGINNING = frozenset(("train", "fit", "parameters"))
_ANEW = re.compile(r"init|reset(?!_?(state|hidden|memory))", re.IGNORECASE)
_MODEL = re.compile(r"model|net(work)?$|module|learner|agent|trainer", re.IGNORECASE)


def loops_of_training(program: Program) -> tuple[list[ast.AST], list[ast.AST]]:
    """The loops of the program's own that run its training, over batches and over epochs, and what
    a framework's run: the methods of the program that it calls in each step, and between steps.
    """
    inner, outer = own_loops(program)
    for method in _called_back(program):
        each_step = _IN_EACH_STEP.search(method.name) and not _IN_NO_STEP.search(method.name)
        (inner if each_step else outer).append(method)
    return inner, outer


def own_loops(program: Program) -> tuple[list[ast.AST], list[ast.AST]]:
    """The loops that run the backward pass that was seen, whether it stands in them or in what they
    call: the innermost ones, over batches, and those round them, over epochs. Where no loop runs
    it, its function. Where a library runs the backward pass (`accelerator.backward(loss)`), those
    that run the forward pass; nothing where no loop of the program's own does.
    """
    places = (program.places.backward, program.places.forward)
    own = [each for each in places if each is not None and each.path in program.scripts]
    if not own or program.places.backward is None:
        return [], []
    place, in_library = own[0], own[0] is not program.places.backward
    script = program.scripts[place.path]
    held = [at for at in script.nodes if isinstance(at, ast.stmt) and covers(at, place.line)]
    if not held:
        return [], []
    inner, outer = list[ast.AST](), list[ast.AST]()
    waiting: list[tuple[Script, ast.AST, bool]] = [(script, held[-1], False)]
    known = set[tuple[str, bool]]()
    while waiting:
        at, node, is_inside = waiting.pop()
        around = [each for each in at.statements_to(node) if isinstance(each, Loop)]
        inner += [] if is_inside else around[:1]
        outer += around[0 if is_inside else 1 :]
        function, is_inside = at.function(node), is_inside or bool(around)
        if function is not None and (function.name, is_inside) not in known:
            known.add((function.name, is_inside))
            waiting += [(by, call, is_inside) for by, call in calls_named(program, function.name)]
    if not inner and not in_library:
        inner = [script.function(held[-1]) or script.tree]
    return inner, outer


def _called_back(program: Program) -> Iterator[Function]:
    """The methods of the program that a framework calls while it trains."""
    classes = [at for _, at in program.classes()]
    known = set[str]()
    while more := {at.name for at in classes if _is_of_framework(at, known)} - known:
        known |= more
    for at in classes:
        if at.name in known:
            for each in (each for each in at.body if isinstance(each, Function)):
                if _CALLED_BACK.fullmatch(each.name) and not _ONCE.fullmatch(each.name):
                    yield each


def _is_of_framework(kind: ast.ClassDef, known: set[str]) -> bool:
    bases = set(map(last_name, kind.bases))
    return not bases.isdisjoint(known) or any(map(_OF_FRAMEWORKS.search, bases))


def running(program: Program, sources: list[ast.AST], *, strictly: bool = False) -> set[ast.AST]:
    """All that runs where `sources` do, as far as names tell; see `reached`."""
    behind = reached(program, sources, strictly=strictly)
    found = (part for node in behind for part in running_parts(node))
    return {node for part in found for node in ast.walk(part)}


def running_within(program: Program, loops: list[ast.AST]) -> set[ast.AST]:
    """What runs in `loops` strictly, without the rest of their functions unless they call these."""
    ran = running(program, loops, strictly=True)
    inside = {node for loop in loops for node in ast.walk(loop)}
    apart: set[ast.AST] = set()
    for script in program.scripts.values():
        for holder in {at for loop in loops if (at := script.function(loop)) is not None}:
            others = ran - (set(ast.walk(holder)) - inside)
            calls = (at for at in others if isinstance(at, ast.Call))
            if not any(_may_be_of(script, holder, call) for call in calls):
                apart.update(run_with(holder))
    return ran - (apart - inside)


def _may_be_of(script: Script, function: Function, call: ast.Call) -> bool:
    """Whether `call` may be one of `function`: `model.train()` is none of a function `train`."""
    bound = is_bound(script, function)
    if last_name(call.func) != function.name or isinstance(call.func, ast.Attribute) is not bound:
        return False
    if call.args or call.keywords or function.name != "train":
        return True
    return not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) == "self"


def running_in_training(program: Program) -> set[ast.AST]:
    """What runs in the loops of the training, over batches and epochs; see `running_within`."""
    inner, outer = loops_of_training(program)
    return running_within(program, [*inner, *outer])


def running_meanwhile(program: Program, seen: Collection[Place] = ()) -> set[ast.AST]:
    """What runs in the loop over batches, as far as names tell, and with the functions that begin
    at the places where such were `seen` to run; without the functions round it, which may go by a
    name that is called in it (`model.train()`).
    """
    over_batches, _ = loops_of_training(program)
    inside = {node for loop in over_batches for node in ast.walk(loop)}
    around = leading_to(program, over_batches)
    apart = {
        node
        for _, function in program.functions()
        if function.name in around
        for node in ast.walk(function)
    }
    begun = _beginning_at(program, seen) - apart
    return running(program, [*over_batches, *begun]) - (apart - inside)


def leading_to(program: Program, loops: list[ast.AST]) -> set[str]:
    """The names of the functions that hold one of `loops`, and of those that come to call them."""
    holders = (at.function(loop) for at in program.scripts.values() for loop in loops)
    return {name for at in holders if at is not None for name in callers(program, at.name)}


def _beginning_at(program: Program, places: Collection[Place]) -> set[ast.AST]:
    """The functions of the program that begin there."""
    lines = {(each.path, each.line) for each in places}
    return {
        node
        for path, script in program.scripts.items()
        for node in script.nodes
        if isinstance(node, Function | ast.Lambda)
        if (path, first_line(node)) in lines
    }


def loops_of_one_training(program: Program) -> tuple[list[ast.AST], list[ast.AST]]:
    """`loops_of_training` without those round these whose turns each train another model."""
    inner, outer = loops_of_training(program)
    holders = leading_to(program, [*inner, *outer])
    closest, further = outer[:1], outer[1:]
    return inner, closest + [at for at in further if not _trains_another(at, outer, holders)]


def _trains_another(loop: ast.AST, outer: list[ast.AST], holders: set[str]) -> bool:
    """Whether a turn of `loop` binds the model that it trains, or begins its weights anew."""
    if not isinstance(loop, ast.For | ast.While):
        return False
    whole = set(ast.walk(loop))
    nested = {node for each in outer if each in whole - {loop} for node in ast.walk(each)}
    bound = names_in(loop.target) if isinstance(loop, ast.For) else set[str]()
    trained = set[str]()
    for node in whole - nested:
        match node:
            case ast.Assign(value=ast.Call() as made):
                bound |= stored_names(node) - names_in(made)
            case ast.Call(func=ast.Attribute(value=owner), args=[]) if (
                last_name(node.func) in _BEGINNING
            ):
                trained |= names_in(owner)
            case ast.Call(func=ast.Attribute(value=owner, attr="apply"), args=[begins]):
                bound |= names_in(owner) if _ANEW.search(last_name(begins)) else set()
            case ast.Call(args=given) if last_name(node.func) in holders:
                names = (at.id for at in given if isinstance(at, ast.Name))
                trained |= set(filter(_MODEL.search, names))
    return bool(bound & trained)
