"""The source that is handed back: what it cannot be given, and what it is, seen to run."""

import time
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from autotune.flow.context import Context
from autotune.knobs import by_name, missed, read_all
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import RunEnded
from autotune.outputs.patch import Emission, emit
from autotune.outputs.wording import settings
from autotune.profiling.profile import Profile
from autotune.trials.space import Space
from autotune.workload.program.target import OBJECTS
from autotune.workload.seen import Seen


def tried_out(context: Context, config: Config, seen: Seen) -> tuple[Emission, bool]:
    """The source with `config`, and whether a run of it is seen to have every setting.

    Where the program fails with it, the setting that makes it fail is left out; all of them are,
    where it is not one alone. So is what was written and then not seen in effect.
    """
    emission = emit(context.target, config, seen)
    if not emission.sources:
        return emission, False
    found = _run(context, emission)
    if isinstance(found, Seen):
        lost = missed(config, found)
        idle = [name for name in lost if name in _written(emission, config)]
        if idle:
            return _without_the_idle(context, emission, config, seen, idle), False
        return _told_of(emission, lost), not emission.refused and not lost
    if found.kind == "ended":  # it is too short to be looked at
        return emission, False
    return _mended(context, emission, config, seen, found), False


def _mended(
    context: Context, emission: Emission, config: Config, seen: Seen, failure: Failure
) -> Emission:
    reason = f"the program failed with the patch: {failure.reason}"
    written = _written(emission, config)
    for name in written if len(written) > 1 and failure.kind != "hung" else ():
        if time.monotonic() > context.deadline:
            break
        others = without(config, name, seen)
        rest = emit(context.target, others, seen)
        if not rest.sources:
            continue
        found = _run(context, rest)
        if isinstance(found, Seen) or found.kind == "ended":
            return _less(emission, rest, config.keys() - others.keys(), reason)
    return emission.withdrawn(reason)


def _without_the_idle(
    context: Context, emission: Emission, config: Config, seen: Seen, idle: Sequence[str]
) -> Emission:
    """`emission` without settings that its program was not seen to have, though they are written:
    they reach only a part of what they are for.
    """
    reason = "written into the source, it was not seen in effect"
    others = config
    for name in idle:
        others = without(others, name, seen)
    rest = emit(context.target, others, seen)
    if not rest.sources:
        return emission.withdrawn(reason)
    return _less(emission, rest, config.keys() - others.keys(), reason)


def _told_of(emission: Emission, lost: Sequence[str]) -> Emission:
    """`emission`, which says of nothing that its program was not seen to have that it is there."""
    reason = "the source seems to say so already, and a run of it was not seen to do so"
    edits = tuple(
        replace(edit, status="refused", reason=reason)
        if edit.knob in lost and edit.status == "already"
        else edit
        for edit in emission.edits
    )
    return replace(emission, edits=edits)


def _less(emission: Emission, rest: Emission, names: Set[str], reason: str) -> Emission:
    """`rest`, whose edits also say why those of `names` are left out of `emission`."""
    left_out = (edit for edit in emission.withdrawn(reason).edits if edit.knob in names)
    return replace(rest, edits=(*rest.edits, *left_out))


def _written(emission: Emission, config: Config) -> list[str]:
    """The settings that the source has."""
    done = {edit.knob for edit in emission.edits if edit.status == "done"}
    return [name for name in config if name in done]


def without(config: Config, name: str, seen: Seen) -> Config:
    """`config` without one of its settings, and those that mean nothing without that one."""
    others = {other: value for other, value in config.items() if other != name}
    whole = read_all(seen) | others
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


def unwritable(context: Context, profiled: Profile, space: Space) -> dict[str, tuple[str, ...]]:
    """Settings of `space` that the source refuses each by itself, in words, by the reason; objects
    have no source.
    """
    found: dict[str, tuple[str, ...]] = {}
    if context.target.kind == OBJECTS:
        return found
    for name, config in _settings(space):
        refused = emit(context.target, config, profiled.seen).refused
        if refused:
            is_number = type(config[name]) is int
            said = name if is_number else settings(config)
            found[refused[0].reason] = (*found.get(refused[0].reason, ()), said)
    return found


def _settings(space: Space) -> Iterator[tuple[str, Config]]:
    """Each that means something by itself; of a knob's numbers the last stands for all."""
    for name, values in space.choices.items():
        others = [value for value in values if value != space.own[name]]
        for value in others[-1:] if type(values[-1]) is int else others:
            config = space.difference({name: value})
            if name in config:
                yield name, config
