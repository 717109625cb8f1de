"""The JPEG example, which loads in its own process, on a GPU: what autotune makes of it, and what
loadtune 0.3.0 does.

Three measurements: autotune's search; the program as it is and as it was handed back, in turns; and
loadtune's search as its README says it is used, with what it recommends in turns with autotune's.
"""

import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.bench import delivered, rival
from tests.bench.contestants import EXAMPLES, Example
from tests.bench.delivered import ORIGINAL, TUNED, Claim, copy_of, prepare
from tests.bench.gpu_rivals import search_by_us, written
from tests.bench.gpu_unit import Setting, Unit

NAME = "rivals-jpeg"
BUDGET = "60s"
ROUNDS = 1
# With its own settings it takes about 90: six trials of 9 to 17 s.
LOADTUNE_SECONDS = 130.0


def ours(setting: Setting) -> dict[str, Any]:
    """What autotune's search says, takes, and hands back."""
    example = _photos(setting)
    return search_by_us(example, prepare(example, setting.work), setting.budget or BUDGET)


def turns(setting: Setting) -> dict[str, Any]:
    """Whole runs of the program as it is and as it was handed back, and what they say of both."""
    example, own = _photos(setting), setting.needed(f"{NAME}-ours")
    root = prepare(example, setting.work)
    programs = {ORIGINAL: root / "examples" / example.original, **_handed_back(example, root, own)}
    rounds = setting.rounds or ROUNDS
    timings = delivered.take_turns(example, programs, rounds, setting.work, most_rounds=rounds)
    return delivered.compare(example, Claim(**own["claim"]), None, timings)


def against_loadtune(setting: Setting) -> dict[str, Any]:
    """What loadtune's search says and takes; where it recommends something, whole runs of that and
    of what autotune handed back. Without its package there is nothing to say.
    """
    example, own = _photos(setting), setting.needed(f"{NAME}-ours")
    try:
        python = rival.install(setting.work / "loadtune-venv")
    except (subprocess.CalledProcessError, OSError) as error:
        said = f"{error}\n{getattr(error, 'stderr', None) or ''}"
        return {"loadtune": None, "said": f"{rival.PACKAGE} could not be installed: {said}"}
    root = prepare(example, setting.work)
    answer = rival.tune(
        python,
        example,
        copy_of(root, delivered.RIVAL),
        options=rival.DEFAULTS,
        limit_seconds=LOADTUNE_SECONDS,
    )
    facts: dict[str, Any] = {"loadtune": asdict(answer)}
    if not answer.found:
        return facts
    programs = _handed_back(example, root, own) or {ORIGINAL: root / "examples" / example.original}
    programs[delivered.RIVAL] = setting.work / delivered.RIVAL / "examples" / example.original
    rounds = setting.rounds or ROUNDS
    timings = delivered.take_turns(example, programs, rounds, setting.work, most_rounds=rounds)
    return {**facts, **delivered.raw_of(timings, example.lines.warm_samples)}


def _handed_back(example: Example, root: Path, own: dict[str, Any]) -> dict[str, Path]:
    """The program that autotune's search gave, where it gave one."""
    if own["tuned"] is None:
        return {}
    tuned = copy_of(root, TUNED) / "examples" / example.tuned
    return {TUNED: written(own["tuned"], tuned)}


def _photos(setting: Setting) -> Example:
    photos = next(example for example in EXAMPLES if example.name == "photos")
    return replace(photos, arguments=("--epochs", "2" if setting.rehearse else "12"))


UNITS = (
    Unit(part="rivals", name=f"{NAME}-ours", seconds=95, measure=ours),
    Unit(part="rivals", name=NAME, seconds=65, measure=turns, needs=(f"{NAME}-ours",)),
    Unit(
        part="rivals",
        name=f"{NAME}-loadtune",
        seconds=150,
        measure=against_loadtune,
        needs=(f"{NAME}-ours",),
    ),
)
