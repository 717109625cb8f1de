"""The tuned program: the user's own source with the settings written into it, and the patch that
makes it so.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotune.knobs import KNOBS
from autotune.knobs.knob import Config
from autotune.outputs.framework import in_its_framework
from autotune.outputs.writing import declared_encoding, write_whole
from autotune.source import by_hand, rewrite, unified_patch
from autotune.source.edits import EditOutcome, Place, Places
from autotune.workload.program.imported import files_that_run
from autotune.workload.program.target import RECIPE, Target
from autotune.workload.seen import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """What is handed back as source.

    Attributes:
        sources: text of each changed file, by the absolute path that it runs under.
        program: text of the whole tuned program, the main file's; "" where it is a program only
            together with other files of its project.
        patch: what `git apply` takes in `root`.
        edits: what became of each edit.
        places: where the program was seen to do what the edits change.
        main: path of its main file.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    patch: str = ""
    root: str = ""
    edits: tuple[EditOutcome, ...] = ()
    places: Places = field(default_factory=Places)
    main: str = ""

    @property
    def refused(self) -> tuple[EditOutcome, ...]:
        """The edits that the source does not have, and that a person would have to make."""
        return tuple(edit for edit in self.edits if edit.status == "refused")

    @property
    def compiles(self) -> bool:
        """Whether the source uses torch.compile where the program did not."""
        return any(edit.knob == "compile" and edit.status == "done" for edit in self.edits)

    def withdrawn(self, reason: str) -> "Emission":
        """Nothing to hand back, for this `reason`; what was refused for one of its own keeps it."""
        edits = tuple(
            self._withdrawn(edit, reason) if edit.status == "done" else edit for edit in self.edits
        )
        return replace(self, sources={}, program="", patch="", edits=edits)

    def _withdrawn(self, edit: EditOutcome, reason: str) -> EditOutcome:
        hand_step = edit.line or by_hand(edit.edit, self.places, self.main)
        return replace(edit, status="refused", reason=reason, hand_step=hand_step)


def emit(target: Target, config: Config, seen: Seen) -> Emission:
    """Write `config` into the source of `target`, of which a run was `seen`.

    Modules of the project in which nothing was seen to happen are read all the same: what they do
    with a model or loader that is handed to them may forbid an edit. What a link leads to outside
    the project is only read: `apply` would change it for others too.
    """
    requests = [
        (knob.name, edit)
        for knob in KNOBS
        if knob.name in config
        for edit in knob.edits(config[knob.name], seen)
    ]
    imported = [str(file) for file, _ in files_that_run(target, seen.modules)]
    before = target.texts([*_files(seen), *imported])
    root = target.root
    inside = os.path.join(os.path.realpath(root), "")
    linked = frozenset(path for path in before if not os.path.realpath(path).startswith(inside))
    rewritten = rewrite(before, requests, seen.places, main=target.path, fixed=linked)
    if target.kind == RECIPE:
        tuned = str(Path(target.path).with_name(f"{target.name}_tuned.py"))
        patch = unified_patch({}, {tuned: rewritten.sources[target.path]}, root)
    else:
        patch = unified_patch(before, rewritten.sources, root)
    changed = {path: text for path, text in rewritten.sources.items() if text != before[path]}
    is_whole = target.kind == RECIPE or not {*imported, *changed} - {target.path}
    return Emission(
        sources=changed,
        program=rewritten.sources[target.path] if is_whole else "",
        patch=patch,
        root=root,
        edits=in_its_framework(rewritten.outcomes, config, seen),
        places=seen.places,
        main=target.path,
    )


def write_patch(emission: Emission, patch: Path, program: Path) -> None:
    """Write the patch and the whole tuned program, where there is one, to these files; the program
    in the encoding that it declares.
    """
    write_whole(patch, emission.patch)
    if emission.program:
        write_whole(program, emission.program, encoding=declared_encoding(emission.program))


def _files(seen: Seen) -> list[str]:
    places = seen.places
    roles = (
        places.loader,
        places.loader_class,
        places.optimizer,
        *places.more_optimizers,
        places.forward,
        places.backward,
        places.step,
        places.zero_grad,
    )
    places_seen = (*roles, *places.outputs, *places.copies)
    return [place.path for place in places_seen if isinstance(place, Place)]
