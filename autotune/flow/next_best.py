"""What is judged where the best is faster, but another training: the next best without the setting
that is likeliest to make it so.
"""

from dataclasses import replace

from autotune.flow.emitting import without
from autotune.flow.trying import Found
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Measurement
from autotune.trials.space import Space
from autotune.trials.trial import Trial
from autotune.verdict.clear import MINIMUM_GAIN
from autotune.workload.seen import Seen

# What moves the numbers of a training most comes first: another number of steps, a shorter format,
# another batch in each pass, other random numbers, other orders of additions.
PARTING = (
    *("batch_size", "precision", "micro_batches", "num_workers", "persistent_workers", "compile"),
    *("channels_last", "optimizer", "threads", "blas_threads", "cudnn_benchmark", "checkpointing"),
    "flush_denormal",
)


def suspect(config: Config) -> str:
    """The setting that is likeliest to make `config` another training; "" where none is known."""
    return next((name for name in PARTING if name in config), "")


def in_order(config: Config) -> list[str]:
    """The settings of `config`, the likeliest first to make it another training."""
    first = [name for name in PARTING if name in config]
    return [*first, *(name for name in config if name not in first)]


def next_best(best: Trial, name: str, found: Found, space: Space, seen: Seen) -> Trial | None:
    """What is most likely fastest of what was `found` without the setting called `name`, which
    makes `best` suspect, where it was faster than the program as it is; else `best` without that,
    though it was not tried. None where nothing is left.
    """
    if not name:
        return None
    own = max((_speed(trial) for trial in found.trials if not trial.config), default=0.0)
    others = (trial for trial in found.ranked if trial.config and name not in trial.config)
    likeliest = next(others, None)
    if likeliest and _speed(likeliest) > MINIMUM_GAIN * own:
        return likeliest
    rest = without(best.config, name, seen)
    tried = any(trial.config == rest for trial in found.trials)
    return None if tried or not rest or not space.admits(rest) else replace(best, config=rest)


def _speed(trial: Trial) -> float:
    return trial.outcome.samples_per_second if isinstance(trial.outcome, Measurement) else 0.0
