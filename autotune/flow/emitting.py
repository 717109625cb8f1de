"""The source that is handed back: written, and seen to run."""

import time
from dataclasses import replace

from autotune.flow.context import Context
from autotune.knobs import KNOBS, by_name, unobserved
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure
from autotune.measurement.process import RunEnded
from autotune.outputs.patch import Emission, emit
from autotune.workload.seen import Seen


def tried_out(context: Context, config: Config, seen: Seen) -> tuple[Emission, bool]:
    """The source with `config`, and whether a run of it is seen to have every setting.

    Where the program fails with it, the setting that makes it fail is left out; all of them are,
    where it is not one alone.
    """
    emission = emit(context.target, config, seen)
    if not emission.sources:
        return emission, False
    found = _run(context, emission)
    if isinstance(found, Seen):
        return emission, not emission.refused and not unobserved(config, found)
    if found.kind == "ended":  # it is too short to be looked at
        return emission, False
    return _mended(context, emission, config, seen, found), False


def _mended(
    context: Context, emission: Emission, config: Config, seen: Seen, failure: Failure
) -> Emission:
    reason = f"the program failed with the patch: {failure.reason}"
    written = [
        name
        for name in config
        if any(edit.knob == name and edit.status == "done" for edit in emission.edits)
    ]
    for name in written if len(written) > 1 and failure.kind != "hung" else ():
        if time.monotonic() > context.deadline:
            break
        others = _without(config, name, seen)
        rest = emit(context.target, others, seen)
        if rest.sources and not _fails(_run(context, rest)):
            refused = emission.withdrawn(reason).edits
            left_out = (edit for edit in refused if edit.knob in config.keys() - others.keys())
            return replace(rest, edits=(*rest.edits, *left_out))
    return emission.withdrawn(reason)


def _without(config: Config, name: str, seen: Seen) -> Config:
    """`config` without one of its settings, and those that mean nothing without that one."""
    others = {other: value for other, value in config.items() if other != name}
    whole = {knob.name: knob.read(seen) for knob in KNOBS} | others
    return {other: value for other, value in others.items() if by_name(other).active(whole)}


def _run(context: Context, emission: Emission) -> Seen | Failure:
    """What a few steps of the emitted program are seen to be made of, or how it ended."""
    run = context.bench.start(sources=emission.sources, compiles=emission.compiles)
    try:
        run.window(0.0, steps=2)
        return run.seen()
    except RunEnded as end:
        return end.failure
    finally:
        run.kill()


def _fails(found: Seen | Failure) -> bool:
    return isinstance(found, Failure) and found.kind != "ended"
