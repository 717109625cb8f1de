"""The search as an Optuna study; the only importer of Optuna."""

from autotune.trials.study.sampler import ProfileSampler, distributions, suggest
from autotune.trials.study.storage import reach
from autotune.trials.study.study import Study

__all__ = ["ProfileSampler", "Study", "distributions", "reach", "suggest"]
