"""The door of this package: edits in, rewritten sources and what became of each edit out."""

import ast
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from autotune.source.calls.building import NEEDS_WORKERS
from autotune.source.edits import (
    Accumulate,
    Autocast,
    Edit,
    EditOutcome,
    LoaderArgument,
    ModelStatement,
    NonBlockingCopies,
    OptimizerArgument,
    Places,
    PrefetchToDevice,
    ProcessStatement,
    ZeroGradToNone,
)
from autotune.source.meanings import imported_names
from autotune.source.program import BYTE_ORDER_MARK, Forbidden, Program, Refusal, parsed
from autotune.source.rewrites.accumulate import accumulate, multiples
from autotune.source.rewrites.autocast import autocast
from autotune.source.rewrites.loader import loader_argument, overridden
from autotune.source.rewrites.loop_calls import non_blocking_copies, zero_grad_to_none
from autotune.source.rewrites.model import model_statement, statements_by_hand
from autotune.source.rewrites.optimizer import optimizer_argument
from autotune.source.rewrites.prefetch import prefetch_to_device
from autotune.source.rewrites.process import process_statement
from autotune.source.script import Script, parse

_READING = ast.Name | ast.Attribute | ast.Subscript


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """All sources, changed or not, and what became of every edit, in the order of the requests."""

    sources: dict[str, str]
    outcomes: tuple[EditOutcome, ...]


def rewrite(
    sources: Mapping[str, str],
    requests: Sequence[tuple[str, Edit]],
    places: Places,
    *,
    main: str = "",
    fixed: frozenset[str] = frozenset(),
) -> Rewrite:
    """`sources` with the edits made; an edit that is refused changes nothing.

    Lines in hand steps are those of `sources` as they were given.

    Args:
        sources: absolute path -> text with the file's own line ends: the main script and those
            modules beside it that may be changed.
        requests: knob name and edit, in order of application.
        places: where the program was seen to do what the edits change, in lines of `sources`.
        main: path of the main script; the first of `sources` where it is not given.
        fixed: paths of those of `sources` that are links to what is not the project's.
    """
    marked = {path for path, text in sources.items() if text.startswith(BYTE_ORDER_MARK)}
    program = parsed(sources, places, main or next(iter(sources), ""))
    original = program = replace(program, fixed=fixed)
    outcomes: list[EditOutcome] = []
    for knob, edit in requests:
        try:
            _check_workers(edit, outcomes, places)
            changed = _edited(program, edit)
        except Refusal as refusal:
            outcomes.append(_refused(original, knob, edit, refusal))
        else:
            outcomes.append(_made(original, program, changed, knob, edit))
            program = changed
    texts = {
        path: BYTE_ORDER_MARK + text if path in marked else text
        for path, text in _texts(program).items()
    }
    return Rewrite(sources={**sources, **texts}, outcomes=tuple(outcomes))


def _made(
    original: Program, program: Program, changed: Program, knob: str, edit: Edit
) -> EditOutcome:
    """What became of `edit`, which makes `changed` of `program`."""
    if _texts(changed) == _texts(program):
        return EditOutcome(
            knob=knob, edit=edit, status="already", reason="the source says so already"
        )
    return EditOutcome(
        knob=knob,
        edit=edit,
        status="done",
        reason=_what_goes(program, changed, edit),
        line=_changed_line(original, edit),
    )


def _refused(original: Program, knob: str, edit: Edit, refusal: Refusal) -> EditOutcome:
    """The same where it met with `refusal`, in lines of the `original`."""
    try:
        _edited(original, edit)
    except Refusal as alone:
        refusal, hand_step = alone, alone.hand_step
    else:
        hand_step = refusal.hand_step if isinstance(refusal, _NoWorkers) else ""
    return EditOutcome(
        knob=knob,
        edit=edit,
        status="refused",
        reason=refusal.reason,
        hand_step=hand_step or by_hand(edit, original.places, original.main),
        forbidden=isinstance(refusal, Forbidden),
    )


def _changed_line(original: Program, edit: Edit) -> str:
    """The one line that `edit` changes of `original`, or the statements it adds; else ""."""
    if isinstance(edit, ModelStatement):
        return statements_by_hand(original, edit)
    try:
        changed = _texts(_edited(original, edit))
    except Refusal:
        return ""
    found = []
    for path, before in _texts(original).items():
        old, new = before.splitlines(), changed[path].splitlines()
        if len(old) != len(new):
            return ""
        lines = enumerate(zip(old, new, strict=True), start=1)
        found += [
            f"{path}:{number}: {is_now.strip()}" for number, (was, is_now) in lines if was != is_now
        ]
    return found[0] if len(found) == 1 else ""


def _what_goes(program: Program, changed: Program, edit: Edit) -> str:
    """What `program` reads no more once `changed`, or what `edit` needs; "" for nothing."""
    if isinstance(edit, Accumulate):
        return multiples(program, edit)
    if packages := _packages(program, edit):
        which = ", ".join(packages)
        return f"the program then needs the package {which}, which is installed here"
    if isinstance(edit, LoaderArgument):
        own = overridden(program, edit)
    else:
        pairs = ((script, changed.scripts[path]) for path, script in program.scripts.items())
        gone = (_read(was) - _read(is_now) for was, is_now in pairs if was.text != is_now.text)
        own = next((code for codes in gone for code in codes), "")
    return f"it was {' '.join(own.split())}, which has no effect here any more" if own else ""


def _packages(program: Program, edit: Edit) -> list[str]:
    """What `edit` imports that is not Python's own, nor torch, and that `program` does not."""
    given = edit.imports if isinstance(edit, ProcessStatement) else ()
    known = {name for script in program.scripts.values() for name in script.imports.values()}
    names = set(imported_names(ast.walk(parse("\n".join(given)))).values())
    return sorted(names - sys.stdlib_module_names - known - {"torch"})


def _read(script: Script) -> Counter[str]:
    """How often `script` reads each variable, attribute and entry; nothing called or imported."""
    read: Counter[str] = Counter()
    called = {call.func for call in script.calls}
    for node in (at for at in script.nodes if isinstance(at, _READING) and at not in called):
        above, root = next(script.ancestors(node)), cast("ast.expr", node)
        is_part = isinstance(above, ast.Attribute | ast.Subscript) and above.value is node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        own = isinstance(root, ast.Name) and root.id not in script.imports
        if own and not is_part and isinstance(node.ctx, ast.Load):
            read[script.code(node)] += 1
    return read


def by_hand(edit: Edit, places: Places, main: str) -> str:
    """What a person would write for `edit`: file, line and code, as where no source is to hand."""
    try:
        _edited(Program(scripts={}, main=main, places=places, broken={}), edit)
    except Refusal as refusal:
        return refusal.hand_step
    return ""


class _NoWorkers(Refusal):
    """What needs workers is refused for theirs, with a hand step in lines of the original."""


def _check_workers(edit: Edit, outcomes: Sequence[EditOutcome], places: Places) -> None:
    """Refuse what DataLoader takes only with workers where the workers were refused."""
    if isinstance(edit, LoaderArgument) and edit.name in NEEDS_WORKERS:
        for outcome in outcomes:
            of_workers = isinstance(outcome.edit, LoaderArgument) and (
                outcome.edit.name == "num_workers"
            )
            if of_workers and outcome.status == "refused":
                raise _NoWorkers(outcome.reason, f"{by_hand(edit, places, '')}, with the workers")


def _texts(program: Program) -> dict[str, str]:
    return {path: script.text for path, script in program.scripts.items()}


def _edited(program: Program, edit: Edit) -> Program:  # noqa: PLR0911 - one answer for each edit
    match edit:
        case LoaderArgument():
            return loader_argument(program, edit)
        case OptimizerArgument():
            return optimizer_argument(program, edit)
        case ProcessStatement():
            return process_statement(program, edit)
        case ModelStatement():
            return model_statement(program, edit)
        case Autocast():
            return autocast(program, edit)
        case Accumulate():
            return accumulate(program, edit)
        case NonBlockingCopies():
            return non_blocking_copies(program)
        case PrefetchToDevice():
            return prefetch_to_device(program)
        case ZeroGradToNone():
            return zero_grad_to_none(program)
