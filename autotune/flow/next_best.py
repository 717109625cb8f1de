"""What is judged where the best is faster, but another training: the next best without the setting
that is likeliest to make it so.
"""

from collections.abc import Sequence
from dataclasses import replace

from autotune.flow.emitting import without
from autotune.flow.trying import Found
from autotune.knobs.knob import Config, Semantics
from autotune.measurement.measurement import Measurement
from autotune.trials.space import Space
from autotune.trials.trial import Trial
from autotune.verdict.chance import came_so_far
from autotune.verdict.clear import MINIMUM_GAIN
from autotune.verdict.parity import Parity, parity
from autotune.workload.seen import Seen

# What moves the numbers of a training most comes first: another number of steps, a shorter format,
# another batch in each pass, other random numbers, other orders of additions.
PARTING = (
    *("batch_size", "precision", "micro_batches", "num_workers", "persistent_workers", "compile"),
    *("channels_last", "optimizer", "threads", "blas_threads", "cudnn_benchmark", "checkpointing"),
    "flush_denormal",
)


def suspect(config: Config, parted: Parity | None = None, trials: Sequence[Trial] = ()) -> str:
    """The setting that is likeliest to make `config` another training, by what they were found to
    have `parted`; "" where none is known. Of some of them `trials` may show that they do not.
    """
    likeliest = [name for name in PARTING if name in config]
    alike = [trial.config for trial in trials if _trained_alike(parted, trial)]
    unlike = (name for name in likeliest if all(each.get(name) != config[name] for each in alike))
    return next(unlike, (*likeliest, "")[0])


def _trained_alike(parted: Parity | None, trial: Trial) -> bool:
    """Whether `trial` had the losses of the program as it is in steps in which others' `parted`."""
    losses = trial.outcome.losses if isinstance(trial.outcome, Measurement) else ()
    if parted is None or not losses:
        return False
    own, others = parted.baseline_losses, parted.tuned_losses
    steps = min(len(own), len(losses))
    if not came_so_far(own[:steps], others[:steps], steps, 0):
        return False
    return bool(parity(own[:steps], losses[:steps], Semantics.EQUIVALENT).same_training)


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
