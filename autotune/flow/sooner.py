"""The texts of a program in which what it does late comes soon."""

import math
from collections.abc import Collection
from dataclasses import replace
from operator import attrgetter

from autotune.source.edits import Place
from autotune.source.loops.seldom import Seldom, seldom, sooner
from autotune.workload.program.imported import whole_program
from autotune.workload.program.target import OBJECTS, Target
from autotune.workload.seen import Seen

# Of a program that is run past all of it: how many steps an epoch has then, how many of these there
# are, and how many steps or epochs lie before what begins late, or comes every so many.
STEPS_PER_EPOCH, EPOCHS, INTERVAL = 5, 10, 2

_NOTHING = frozenset[str]()
_NONE = Seldom(remainders=_NOTHING, inner=_NOTHING, outer=_NOTHING)


def batches_of(steps: int, seen: Seen) -> int:
    """How many batches so many steps take."""
    return steps * math.ceil(max(1.0, seen.backwards_per_step))


def texts_sooner(
    target: Target,
    seen: Seen,
    *,
    steps: int,
    running: Collection[Place] = (),
    batches: int = 0,
    epochs: int = 0,
    early: int = 0,
    every: bool = True,
) -> dict[str, str]:
    """The files of the program, by path, whose text has what comes late; with that after so many
    steps, or epochs, and what comes `every` so many as well (evaluations mostly). `running` are
    where functions begin that its steps were seen to run. An epoch has so many `batches` at the
    most, and there are so many `epochs`; where it has as many as it has (0), a loop that the
    program may leave before its end does end after so many `early` batches.
    """
    if target.kind == OBJECTS:
        return {}
    program = whole_program(target, seen)
    found = dict[str, str]()
    for path, each in seldom(program, running).items():
        left = each.left if early else _NOTHING
        what = each if batches else replace(each, inner=left, outer=_NOTHING)
        what = what if every else replace(what, remainders=_NOTHING)
        if replace(what, left=_NOTHING) != _NONE:
            text, most = program.scripts[path].text, batches or early
            found[path] = sooner(text, what, interval=steps, batches=most, epochs=epochs)
    return found


def how_it_runs(found: Collection[Seldom], *, has_loader: bool) -> str:
    """How a program runs of whose files this was `found`, in words: one without a loader may have
    no epochs that are cut.
    """
    how = list[str]()
    inner, outer = (any(map(attrgetter(name), found)) for name in ("inner", "outer"))
    if has_loader or (inner and outer):
        how.append(f"{f'{EPOCHS} ' * outer}epochs of {STEPS_PER_EPOCH} steps")
    elif inner:
        how.append(f"its loop cut to {STEPS_PER_EPOCH} steps")
    if not how or any(each.remainders or each.stages or each.thresholds for each in found):
        how.append("what comes late or seldom brought forward")
    return f"with {' and '.join(how)},"
