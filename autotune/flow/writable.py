"""Before the trials: what of the space the program's source cannot be given."""

from collections.abc import Iterator

from autotune.flow.context import Context
from autotune.knobs.knob import Config
from autotune.outputs.patch import emit
from autotune.outputs.wording import settings
from autotune.profiling.profile import Profile
from autotune.trials.space import Space
from autotune.workload.program.target import OBJECTS


def unwritable(context: Context, profiled: Profile, space: Space) -> tuple[str, ...]:
    """Settings of `space` that the source refuses each by itself; objects have no source."""
    if context.target.kind == OBJECTS:
        return ()
    return tuple(
        name if type(config[name]) is int else settings(config)
        for name, config in _settings(space)
        if emit(context.target, config, profiled.seen).refused
    )


def _settings(space: Space) -> Iterator[tuple[str, Config]]:
    """Each that means something by itself; of a knob's numbers the last stands for all."""
    for name, values in space.choices.items():
        others = [value for value in values if value != space.own[name]]
        for value in others[-1:] if type(values[-1]) is int else others:
            config = space.difference({name: value})
            if name in config:
                yield name, config
