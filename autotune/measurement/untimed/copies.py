"""What a worker's copy of the dataset does not get from the training, and the training not from
the copy.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf

from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.untimed.looks import looked_for
from autotune.source.edits import Place
from autotune.workload.conversation import Draw
from autotune.workload.program.target import Target
from autotune.workload.samples.delivery import (
    CHANGED,
    NUMBERED,
    SAMPLER,
    TAKEN,
    Delivery,
    Left,
    changed,
)
from autotune.workload.samples.read_back import read_back
from autotune.workload.window import RUNNING

# Steps of a run with workers in which training may be seen to change what they read copies of.
WATCHED_STEPS, WATCHED_SECONDS = 8, 2.0
# Batches, each drawn by itself, after which it is looked at what making it has changed: what is
# left to chance is left alone in some.
LOOKED_BATCHES, _STRIDE = 8, 5
LOOKED_STEPS, LOOKED_SECONDS = 3, 0.5  # that tell which functions the steps run
FEWEST_COUNTED = 4  # in which a number goes up each time
_MOST_NAMED = 2
_GOES_ON = {
    CHANGED: "reading changes `{}`, and what is read may depend on it",
    NUMBERED: "what `{}` does not have yet is given the next number there as samples are read",
    TAKEN: "samples take the next of `{}`",
}


def read_here(run: ProcessRun, seconds: float) -> list[Delivery]:
    """What making a batch changes of that which batches are made from, or leaves there: draws of a
    batch each, in the training's own process. The first tells of settings too.
    """
    found: list[Delivery] = []
    began = time.monotonic()
    while len(found) < LOOKED_BATCHES and (not found or time.monotonic() - began < seconds):
        seed = _STRIDE * len(found) % LOOKED_BATCHES  # what only follows it goes up and down
        draw = Draw(batches=1, seconds=seconds, seed=seed, here=True, settings=not found)
        found.append(run.draw(draw))
    return found


def counted(run: ProcessRun, looked: Sequence[Delivery], seconds: float) -> str:
    """The name of a number that reading counts on, and that what is read depends on: each worker
    counts for itself, from the start again where it is started anew. "" without one.
    """
    names = [
        name
        for name in looked[0].numbers
        if len(looked) >= FEWEST_COUNTED
        and all(
            one.numbers[name] < next_.numbers.get(name, -inf) for one, next_ in pairwise(looked)
        )
    ]
    for name in names:
        left = left_by_reading(run, {name}, seconds)
        if any(each.steers for each in left.attributes):
            return name
    return ""


def why_by_turn(goes_on: Mapping[str, str], counts: str) -> str:
    """Why a sample depends on those that were made before it: by what making one `goes_on` with, or
    by the number that it `counts`; "" where it does not.
    """
    if counts:
        return f"reading counts `{counts}`, and what is read may depend on it"
    return next((_GOES_ON[how].format(name) for name, how in goes_on.items()), "")


def left_by_reading(run: ProcessRun, changed: set[str], seconds: float) -> Left:
    """What of `changed`, by making batches, the rest of the program could read."""
    names = tuple(sorted(changed))
    asked = Draw(batches=LOOKED_BATCHES, seconds=seconds, left=names, here=True)
    return run.draw(asked).left


def why_read_back(target: Target, left: Left) -> str:
    """Why workers would give the program of `target` something else of what is `left` there by
    making batches, or by choosing them; "" where it reads nothing of it.
    """
    chosen = tuple(each for each in left.attributes if each.chooses)
    made = tuple(each for each in left.attributes if not each.chooses)
    if read := read_back(target, replace(left, attributes=made)):
        return (
            f"by its source the program reads {read}, which making a batch sets: in a worker it is "
            "set in a copy"
        )
    if read := read_back(target, replace(left, attributes=chosen, variables=())):
        return (
            f"by its source the program reads {read}, which choosing a batch sets: for workers, "
            "batches are chosen ahead of the one that it trains on"
        )
    return ""


def functions_run(run: ProcessRun) -> tuple[Place, ...]:
    """Where those of the program's own functions begin that its steps run; the program may end
    meanwhile.
    """
    return looked_for(run, RUNNING, tuple, steps=LOOKED_STEPS, seconds=LOOKED_SECONDS) or ()


def why_by_what_learns(learning: Sequence[str]) -> str:
    """Why workers would go by another model, optimizer or scheduler than the program where samples
    are made or chosen by `learning`; "" where they are by none.
    """
    if not learning:
        return ""
    chosen = learning[0].startswith(SAMPLER)
    otherwise = "be chosen ahead of it" if chosen else "be made by copies of it"
    return (
        f"samples may be {'chosen' if chosen else 'made'} by a model, an optimizer or a scheduler "
        f"(`{learning[0]}`): with workers they would {otherwise}, and whether the training ever "
        "changes it cannot be told"
    )


def changed_by_training(run: ProcessRun, read: Sequence[str]) -> str:
    """What training changes, and reading does not, of that which samples are made from or chosen
    by: workers are asked ahead, and what makes samples they have copies of.
    """
    look = Draw(batches=0, seconds=0.0)
    before = run.draw(look)
    began = time.monotonic()
    for _ in range(WATCHED_STEPS):
        run.window(0.0)
        after = run.draw(look)
        (iteration, given), (was_in, had_given) = after.position, before.position
        names = [name for name in changed(before.kept, after.kept) if name not in read]
        if names and iteration == was_in and given > had_given:  # between epochs it reaches them
            copied = "" if names[0].startswith("sampler") else ", from copies"
            return (
                f"the program may be given other data: training changes {names_of(names)}, which "
                f"the samples to come may depend on, and workers read ahead of it{copied}"
            )
        if time.monotonic() - began > WATCHED_SECONDS:
            break
        before = after
    return ""


def names_of(paths: Sequence[str]) -> str:
    """The first of `paths` in words."""
    return " and ".join(f"`{path}`" for path in paths[:_MOST_NAMED])
