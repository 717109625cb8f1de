"""The study of a program, found or begun."""

import optuna
from optuna.storages import BaseStorage

from autotune.trials.study.storage import quiet

METRIC = "samples per second"
# A study in which a search has come to its end says so.
OVER = "over"


def open_study(key: str, storage: BaseStorage, *, fresh: bool) -> optuna.Study:
    """The study called `key`, or the newest that was begun `fresh` after it and in which a search
    has come to its end; to begin `fresh`, one in which none has, or a new one.
    """
    study = optuna.create_study(
        study_name=_name(key, storage, fresh=fresh),
        storage=storage,
        load_if_exists=True,
        direction="maximize",
    )
    with quiet():
        study.set_metric_names([METRIC])
    return study


def _name(key: str, storage: BaseStorage, *, fresh: bool) -> str:
    found = storage.get_all_studies()
    over = {each.study_name for each in found if OVER in each.user_attrs}
    names = [f"{key}-fresh-{number}" for number in range(1, len(found) + 2)]
    if fresh:
        return next(name for name in names if name not in over)
    return next((name for name in reversed(names) if name in over), key)
