"""Several trainings in one run, each of another size: of widths, of lengths, of batch sizes."""

import ast
import re
from collections.abc import Iterator

from autotune.source.loops.around_training import leading_to, loops_of_training
from autotune.source.program import Program, holds
from autotune.source.reach import argument, calls_in, is_bound
from autotune.source.script import (
    COMPREHENSIONS,
    Function,
    Script,
    given_to,
    is_method,
    last_name,
    names_in,
)

# What makes another training of the same size.
_ALIKE = re.compile(
    r"seed|fold|split|repeat|run|rep|trial|round|epoch|lr|rate|decay|momentum|lambda|alpha|beta|gamma"
    r"|drop|smooth|noise|sigma|prob(?!lem)|temperature|^eps|member|client|idx|index|indices"
    r"|name|path|file|_$|^[ijk]$"
)
# What a step computes as much with: an optimizer, a record, and as many samples as there are.
_NO_PARTS = re.compile(
    r"Adam|SGD|RMSprop|Adagrad|LBFGS|Optimizer|Scheduler|LR$|Path$|Writer$|Logger$|Subset"
)
_Turns = ast.For | COMPREHENSIONS


def swept_sizes(program: Program) -> str:
    """Where a loop's turns each run a training of another size (`for hidden in (32, 2048)`)."""
    place, loops = program.places.optimizer, loops_of_training(program)
    if place is None:
        return ""
    holders = leading_to(program, [*loops[0], *loops[1]])
    trains = [
        (script, at)
        for script, at in program.functions()
        if at.name in holders
        if holds(script, at, [place])
    ]
    for script in program.scripts.values():
        for node in (at for at in script.nodes if isinstance(at, _Turns)):
            for name in _turned(node):
                inside = holds(script, node, [place])
                if (inside and _builds_by(node, name)) or _calls_with(trains, node, name):
                    return script.at(node)
    return ""


def _turned(node: _Turns) -> Iterator[str]:
    """What each turn has another value of, that may be a size."""
    for turns in [node] if isinstance(node, ast.For) else node.generators:
        if not any(map(_splits, calls_in(turns.iter))):
            names = names_in(turns.target)
            yield from (name for name in names if not _ALIKE.search(name.lower()))


def _splits(call: ast.Call) -> bool:
    """Whether it is the `folds.split(samples)` of a cross-validation, and none of a text's."""
    return is_method(call, "split") and any(not isinstance(at, ast.Constant) for at in call.args)


def _calls_with(trains: list[tuple[Script, Function]], node: ast.AST, name: str) -> bool:
    """Whether `node` calls what builds and runs a training, and gives it `name` to build by."""
    for call in calls_in(node):
        for script, function in (at for at in trains if at[1].name == last_name(call.func)):
            for parameter in (at.arg for at in function.args.args):
                given = argument(call, function, parameter, bound=is_bound(script, function))
                told = given is not None and name in names_in(given)
                if told and _builds_by(function, parameter):
                    return True
    return False


def _builds_by(node: ast.AST, name: str) -> bool:
    """Whether an object of a class, and none of `_NO_PARTS`, is made there of what `name` says."""
    calls = [at for at in calls_in(node) if last_name(at.func)[:1].isupper()]
    no_parts = [at for at in calls if _NO_PARTS.search(last_name(at.func))]
    given = (each for call in calls for each in given_to(call))
    inside = {part for call in no_parts for part in ast.walk(call)}
    told = (part for each in given for part in ast.walk(each) if part not in inside)
    return any(isinstance(part, ast.Name) and part.id == name for part in told)
