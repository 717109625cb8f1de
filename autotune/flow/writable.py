"""Before the trials: what of the space the program's source cannot be given."""

from collections.abc import Iterator

from autotune.flow.context import Context
from autotune.knobs.knob import Config
from autotune.outputs.patch import emit
from autotune.outputs.wording import settings
from autotune.profiling.profile import Profile
from autotune.trials.space import Space
from autotune.workload.program.target import OBJECTS


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
