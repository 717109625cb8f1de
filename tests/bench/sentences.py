"""What the rules that read a text would tell of training scripts, to be checked by people.

    python -m tests.bench.sentences FOLDER OUT.tsv

Each directory in FOLDER is a source tree, with its scripts that train: files called train, main,
run or fit, with a backward pass or named by it. Nothing is run, so where a script builds its
loader and optimizer, where it calls its model and where it takes a step is made up from its text:
the first of each, and what stands under an option is told whatever the option says. A search knows
all of that, and tells less.

A line of OUT.tsv: the tree, the script, the rule, the place it tells of, and whether that is so,
which nobody knows yet ("").
"""

import ast
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from autotune.errors import UsageError
from autotune.source.edits import OutputPlace, Place, Places
from autotune.source.loops.chances import moved_chance
from autotune.source.loops.evaluation import evaluated
from autotune.source.loops.later import later_loader
from autotune.source.loops.stages import later_stage
from autotune.source.loops.sweeps import swept_sizes
from autotune.source.loops.thaws import replaced_later, thawed_later
from autotune.source.options.unbuilt import without_unbuilt
from autotune.source.program import Program, parsed
from autotune.source.reach import calls_in
from autotune.source.refusals.dataset_changes import changed_in_training
from autotune.source.refusals.flat_writes import written_flat
from autotune.source.refusals.own_process import counted_by_workers
from autotune.source.refusals.seeded_anew import seeded_anew
from autotune.source.refusals.settings import Setting, Training
from autotune.source.refusals.shared import filled_by_several, shared_out_rounded_down
from autotune.source.refusals.short_numbers import rare_chance, running_values, small_error
from autotune.source.script import last_name, tree_of
from autotune.workload.program.imported import imported_files
from autotune.workload.program.target import load_target

SCRIPTS_OF_EACH, MOST_FILES = 2, 80
_NAMED = re.compile(r"train|main|run|fit")
_OPTIMIZER = re.compile(r"SGD|Adam\w*|RMSprop|Adagrad|RAdam|NAdam|Adadelta|LBFGS")
_MODEL = re.compile(r"(.*\.)?(model|net|network|netG|generator|encoder|module)")
_NEAR = 40  # lines between a forward pass and its backward pass


def seeded(program: Program) -> str:
    """All places where random numbers begin anew."""
    return ", ".join(f"{stream} {place}" for stream, place in seeded_anew(program).items())


def another_loader(program: Program) -> str:
    """As if the one loader that was seen were the first."""
    return later_loader(program, [at for at in (program.places.loader,) if at])


def set_in_training(program: Program, *, meanwhile: bool) -> str:
    """Of all that the datasets' own methods read of themselves, as if a run had found that samples
    are made by it.
    """
    training = Training(program)
    sets = training.sets_meanwhile if meanwhile else training.sets_later
    found = (
        f"{kind.name}.{name} {place}"
        for script in program.scripts.values()
        for kind in script.nodes
        if isinstance(kind, ast.ClassDef)
        for name in sorted(_read_for_samples(kind))
        for inside in (False, True)
        if (place := sets(_setting(kind, name, inside=inside)))
    )
    return ", ".join(dict.fromkeys(found))


def _setting(kind: ast.ClassDef, name: str, *, inside: bool) -> Setting:
    kinds = (kind.name, *filter(None, map(last_name, kind.bases)))
    return Setting(path=f"dataset.{name}", name=name, kinds=kinds, inside=inside)


def _read_for_samples(kind: ast.ClassDef) -> set[str]:
    """The attributes of its own that a class's `__getitem__` reads, and the methods that it calls
    of itself.
    """
    methods = {at.name: at for at in kind.body if isinstance(at, ast.FunctionDef)}
    waiting, found = ["__getitem__"], set[str]()
    if not {"__getitem__", "__len__"} <= methods.keys():
        return found
    while waiting:
        if method := methods.pop(waiting.pop(), None):
            own = [
                at
                for at in ast.walk(method)
                if isinstance(at, ast.Attribute) and ast.unparse(at.value) == "self"
            ]
            found |= {at.attr for at in own if isinstance(at.ctx, ast.Load)}
            waiting += [at.attr for at in own]
    return found - methods.keys()


RULES: Mapping[str, Callable[[Program], str]] = {
    "evaluated": evaluated,
    "stage": later_stage,
    "thawed": thawed_later,
    "replaced": replaced_later,
    "loader": another_loader,
    "changed": changed_in_training,
    "chance": moved_chance,
    "sizes": swept_sizes,
    "set meanwhile": functools.partial(set_in_training, meanwhile=True),
    "set later": functools.partial(set_in_training, meanwhile=False),
    "seeded": seeded,
    "shared out": shared_out_rounded_down,
    "written flat": written_flat,
    "rare chance": rare_chance,
    "small error": small_error,
    "shared cache": filled_by_several,
    "workers counted": counted_by_workers,
    "running value": lambda program: running_values(program, on_a_gpu=False),
}


def scripts_in(tree: Path) -> Iterator[Path]:
    """The training scripts of a source tree, the outermost first."""
    found = []
    for file in tree.rglob("*.py"):
        text = file.read_text(errors="ignore") if file.is_file() else ""
        runs = "__main__" in text or re.search(r"^for ", text, re.MULTILINE)
        trains = "backward()" in text or "train" in file.name
        if "torch" in text and runs and trains and _NAMED.search(file.name):
            found.append(file)
    found.sort(key=lambda file: (len(file.parts), file.name))
    yield from found[:SCRIPTS_OF_EACH]


def program_of(script: Path) -> Program | None:
    """A script and what it imports, with places made up; None without a step to be seen.

    Raises:
        UsageError: it cannot be read.
    """
    target = load_target(script)
    texts = {str(path): text for path, text in islice(imported_files(target), MOST_FILES)}
    places = places_in(texts, target.path)
    if places is None:
        return None
    known = (places.loader, places.optimizer, places.forward, places.step, *places.backwards)
    return parsed(without_unbuilt(texts, known), places, target.path)


def places_in(texts: Mapping[str, str], main: str) -> Places | None:
    """Where files, by path, `main` first, are taken to build and call what a training needs."""
    calls = {
        path: sorted(calls_in(tree_of(texts[path])), key=lambda call: call.lineno)
        for path in sorted(texts, key=lambda path: path != main)
    }
    steps = ((path, *_step(each)) for path, each in calls.items())
    path, backwards, step = next((each for each in steps if each[1]), ("", [], None))
    if step is None:
        return None
    first = backwards[0]
    forwards = [
        call
        for call in calls[path]
        if first.lineno - _NEAR < call.lineno < first.lineno
        and _MODEL.fullmatch(ast.unparse(call.func))
    ]
    outputs = tuple(
        OutputPlace(path=path, line=at.lineno, callee=ast.unparse(at.func), tensors=True)
        for at in forwards[-1:]
    )
    return Places(
        loader=_first(calls, re.compile("DataLoader")),
        optimizer=_first(calls, _OPTIMIZER),
        forward=outputs[0] if outputs else None,
        outputs=outputs,
        backward=Place(path=path, line=first.lineno),
        backwards=tuple(Place(path=path, line=at.lineno) for at in backwards),
        step=Place(path=path, line=step.lineno),
    )


def _step(calls: list[ast.Call]) -> tuple[list[ast.Call], ast.Call | None]:
    """The backward passes of a step, and the optimizer's step after them; nothing in a file that
    has not both.
    """
    backwards = [call for call in calls if ast.unparse(call.func).endswith(".backward")]
    steps = [call for call in calls if re.search(r"opt.*\.step$", ast.unparse(call.func), re.I)]
    if not (backwards and steps):
        return [], None
    step = next((at for at in steps if at.lineno > backwards[0].lineno), steps[0])
    return [at for at in backwards if at.lineno <= step.lineno] or backwards[:1], step


def _first(calls: Mapping[str, list[ast.Call]], name: re.Pattern[str]) -> Place | None:
    """The first call of that name; one in a file's order that speaks of training before others."""
    for path, each in calls.items():
        found = [call for call in each if name.fullmatch(last_name(call.func))]
        if found:
            call = min(found, key=lambda at: "train" not in ast.unparse(at).lower())
            return Place(path=path, line=call.lineno)
    return None


def main(folder: str, out: str) -> None:
    """Write what each rule tells of each script."""
    with Path(out).open("w") as file:
        for tree in sorted(each for each in Path(folder).iterdir() if each.is_dir()):
            for script in scripts_in(tree):
                try:
                    program = program_of(script)
                except UsageError:
                    continue
                told = {name: rule(program) for name, rule in RULES.items()} if program else {}
                for name, place in told.items():
                    if place:
                        short = place.replace(f"{tree}{os.sep}", "")
                        row = (tree.name, str(script.relative_to(tree)), name, short, "")
                        print(*row, sep="\t", file=file, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
