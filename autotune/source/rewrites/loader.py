"""What the training DataLoader is built with, in the call that decides it."""

import ast

from autotune.source.calls.anew import calls_anew
from autotune.source.calls.building import LOADER, NEEDS_WORKERS, Building, building
from autotune.source.calls.keywords import (
    drop_argument,
    expression,
    given_value,
    operand,
    set_argument,
)
from autotune.source.calls.spreads import may_hide
from autotune.source.edits import LoaderArgument
from autotune.source.loops.drawn_again import draws_again
from autotune.source.loops.other_loaders import builds_several
from autotune.source.program import Change, Forbidden, Program
from autotune.source.refusals.dataset_changes import changed_later, changed_meanwhile
from autotune.source.refusals.own_process import counted_by_workers
from autotune.source.refusals.workers import changed_directory, run_anew

# A function that builds the loaders of training, validation and test; more are another matter.
MOST_OTHERS = 3
# How two of them are written where that may be.
WITHOUT_WORKERS = {"prefetch_factor": "{0} if {1} else None", "persistent_workers": "{1} > 0"}


def loader_argument(program: Program, edit: LoaderArgument) -> Program:
    """`program` with the training DataLoader built with `edit.name=edit.code`.

    Raises:
        Refusal: what it is built with now cannot be told.
    """
    hand_step = f"DataLoader(..., {edit.name}={edit.code})"
    at = building(program, edit.name, hand_step)
    if (edit.name, edit.code) == ("persistent_workers", "True"):
        _refuse_to_keep_workers(program, at, hand_step)
    if edit.name == "num_workers" and edit.code != "0":
        _refuse_workers(program, at, edit, hand_step)
    if edit.others > MOST_OTHERS and not edit.had_workers and edit.code not in ("0", "False"):
        reason = (
            f"this line builds other loaders as well (the program has {edit.others} beside the "
            "training's), and each would have, or keep, workers of its own"
        )
        raise at.call.refusal(reason, hand_step)
    if edit.name == "batch_size" and (edit.shared or builds_several(program, at.call)):
        raise at.call.refusal("this line builds other loaders as well", hand_step)
    code = _beside_workers(at, edit)
    program = program.changed(_set(at, edit.name, code, hand_step))
    if (edit.name, edit.code) == ("num_workers", "0"):
        for name in NEEDS_WORKERS:
            program = program.changed(_dropped(building(program, name, hand_step), name, hand_step))
    return program


def _refuse_to_keep_workers(program: Program, at: Building, hand_step: str) -> None:
    """Raises Refusal where workers that live on would deliver other samples."""
    if draws_again(program):
        reason = "the loop may draw from its loader a second time meanwhile, from the same workers"
        by_hand = f"{hand_step}, with a DataLoader of its own for what the loop draws besides"
        raise at.call.refusal(reason, by_hand, Forbidden)
    if changed := changed_directory(program):
        reason = f"the working directory may be changed at {changed}, in what the training's loops "
        reason += "run: workers that live on stay where they were begun"
        raise at.call.refusal(reason, hand_step, Forbidden)
    if changed := changed_later(program, at):
        reason = f"workers that live on would not see what {changed} may change of the dataset"
        raise at.call.refusal(reason, hand_step, Forbidden)


def _refuse_workers(program: Program, at: Building, edit: LoaderArgument, hand_step: str) -> None:
    """Raises Refusal where workers would deliver other samples, or be the program once more."""
    if not edit.had_workers and (changed := changed_meanwhile(program, at)):
        what = f"what the loop may change of the dataset at {changed}"
        reason = f"workers, which make samples ahead, would see {what} too late or not at all"
        raise at.call.refusal(reason, hand_step, Forbidden)
    if asked := counted_by_workers(program):
        reason = f"the program asks how many workers a loader has at {asked}, and may go by that"
        raise at.call.refusal(reason, hand_step, Forbidden)
    if run_anew(program, at):
        reason = (
            "each worker may import the main script, and run the whole program: workers may be "
            'spawned here, and the training is not under `if __name__ == "__main__":`'
        )
        by_hand = f'the training under `if __name__ == "__main__":`, and {hand_step}'
        raise at.call.refusal(reason, by_hand, Forbidden)


def _set(at: Building, name: str, code: str, hand_step: str) -> list[Change]:
    """What builds the loader with `name=code`, wherever it is built anew as well."""
    return [
        change
        for call in calls_anew(at.call)
        for change in set_argument(call, name, code, at.signature, hand_step)
    ]


def _dropped(at: Building, name: str, hand_step: str) -> list[Change]:
    """What leaves DataLoader at its own default of `name`."""
    default = LOADER.defaults[name]
    if at.signature.defaults[name] != default:
        return _set(at, name, default, hand_step)
    return [
        change
        for call in calls_anew(at.call)
        for change in drop_argument(call, name, at.signature, hand_step)
    ]


def overridden(program: Program, edit: LoaderArgument) -> str:
    """The code of the DataLoader's `edit.name`, no longer asked then; "" where it is constant."""
    at = building(program, edit.name, "")
    value = given_value(at.call, edit.name, at.signature)
    code = at.signature.defaults.get(edit.name, "") if value is None else at.call.script.code(value)
    return code if code and not _is_constant(code) else ""


def _is_constant(code: str) -> bool:
    return isinstance(expression(f"({code})"), ast.Constant)


def _beside_workers(at: Building, edit: LoaderArgument) -> str:
    """The code for `edit` in a call whose number of workers is an option, and may be 0."""
    if edit.code in ("None", "False"):  # as good without workers
        return edit.code
    workers = given_value(at.call, "num_workers", at.signature)
    by_hand = f"DataLoader(..., {edit.name}={edit.code})"
    if edit.name in WITHOUT_WORKERS and workers is None and may_hide(at.call, "num_workers"):
        reason = "the number of workers comes with ** arguments, and may be 0"
        raise at.call.refusal(reason, by_hand)
    default = at.signature.defaults["num_workers"]
    if edit.name in WITHOUT_WORKERS and workers is None and not _is_constant(default):
        raise at.call.refusal(f"the number of workers is {default}, and may be 0", by_hand)
    if edit.name not in WITHOUT_WORKERS or workers is None or isinstance(workers, ast.Constant):
        return edit.code
    return WITHOUT_WORKERS[edit.name].format(edit.code, operand(at.call.script, workers))
