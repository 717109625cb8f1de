"""The study of a program, found or begun."""

import itertools

import optuna
from optuna.storages import BaseStorage

from autotune.trials.study.storage import quiet

METRIC = "samples per second"
# A study in which a search has come to its end says so.
OVER = "over"


def open_study(key: str, storage: BaseStorage, *, fresh: bool) -> optuna.Study:
    """The study called `key`; of those that were begun `fresh`, the one in which no search has come
    to its end, or a new one.
    """
    study = optuna.create_study(
        study_name=_fresh(key, storage) if fresh else key,
        storage=storage,
        load_if_exists=True,
        direction="maximize",
    )
    with quiet():
        study.set_metric_names([METRIC])
    return study


def _fresh(key: str, storage: BaseStorage) -> str:
    found = optuna.get_all_study_summaries(storage, include_best_trial=False)
    over = {each.study_name for each in found if OVER in each.user_attrs}
    names = (f"{key}-fresh-{number}" for number in itertools.count(1))
    return next(name for name in names if name not in over)
