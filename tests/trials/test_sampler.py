"""The planner serves any study of Optuna's, and Optuna's samplers serve a search."""

from typing import Any

import optuna
import pytest

from autotune.errors import UsageError
from autotune.trials import keeping
from autotune.trials.keeping import SAMPLERS, parse_sampler
from autotune.trials.space import Space
from autotune.trials.study import ProfileSampler, Study, distributions, suggest
from tests import builders
from tests.trials.test_study import SPACE, joint, search

OWN = dict(SPACE.own)


def objective(trial: optuna.Trial) -> float:
    return joint(SPACE.difference(suggest(trial, SPACE)))


def optimized(trials: int, **options: Any) -> optuna.Study:
    sampler = ProfileSampler(SPACE, builders.profile())
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=trials, **options)
    return study


def test_the_programs_own_setting_is_the_first_of_any_study() -> None:
    assert optimized(1).trials[0].params == OWN


def test_a_plain_study_finds_settings_that_gain_only_together() -> None:
    best = optimized(6).best_params
    assert best["num_workers"] and best["threads"] == 1 and best["channels_last"]


def test_nothing_is_proposed_twice_to_a_plain_study() -> None:
    tried = [tuple(trial.params.items()) for trial in optimized(SPACE.size).trials]
    assert len(set(tried)) == SPACE.size


def test_callbacks_and_failed_trials_of_a_plain_study_are_had() -> None:
    told: list[int] = []

    def failing(trial: optuna.Trial) -> float:
        if suggest(trial, SPACE) != OWN:
            raise RuntimeError("no")
        return 100.0

    sampler = ProfileSampler(SPACE, builders.profile())
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(
        failing,
        n_trials=3,
        catch=RuntimeError,
        callbacks=[lambda _, each: told.append(each.number)],
    )
    tried = [SPACE.difference(each.params) for each in study.trials]
    assert told == [0, 1, 2]
    assert not tried[1].items() <= tried[2].items()


def test_the_trials_of_a_search_are_a_table_with_names_and_values() -> None:
    with Study(SPACE, builders.profile(), key="program", storage=None) as searched:
        search(searched, joint, limit=3)
        table = searched._study.get_trials(deepcopy=False)
    assert [set(each.params) for each in table] == [set(SPACE.choices)] * 3
    assert table[0].value == joint({})
    assert {"config", "interval", "seconds"} <= set(table[0].user_attrs)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_whoever_proposes_the_first_is_the_own_setting_and_none_is_tried_twice(
    sampler: str,
) -> None:
    pytest.importorskip("scipy") if sampler == "gp" else None
    with Study(
        SPACE,
        builders.profile(),
        key="program",
        storage=None,
        sampler=sampler,
        patience_seconds=1e9,
    ) as searched:
        tried = search(searched, joint, limit=8)
    assert tried[0] == {}
    assert len({tuple(sorted(each.items())) for each in tried}) == len(tried) == 8
    for config in tried:
        assert all(value in SPACE.choices[name] for name, value in config.items())


def test_what_was_run_is_what_the_trial_says() -> None:
    gaps = Space(choices={"num_workers": (0, 8, 32)}, own={"num_workers": 0}, skipped=())
    with Study(
        gaps,
        builders.profile(),
        key="program",
        storage=None,
        sampler="random",
        patience_seconds=1e9,
    ) as searched:
        search(searched, lambda config: 100.0, limit=3)
        said = {each.params["num_workers"] for each in searched._study.trials}
    assert said <= {0, 8, 32}


def test_searches_that_may_try_other_values_share_one_study() -> None:
    other = Space(
        choices={
            "num_workers": (0, 3),
            "channels_last": (False, True),
            "precision": ("fp32", "tf32"),
        },
        own={"num_workers": 0, "channels_last": False, "precision": "fp32"},
        skipped=(),
    )
    both = [distributions(each) for each in (SPACE, other)]
    for name in set(both[0]) & set(both[1]):
        optuna.distributions.check_distribution_compatibility(both[0][name], both[1][name])
    assert both[1]["precision"].choices == ("fp32", "tf32", "bf16", "fp16")


def test_a_sampler_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="no sampler called 'bayes'"):
        parse_sampler("bayes")


def test_a_sampler_whose_library_is_missing_says_which_extra_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="scipy") as refused:
        parse_sampler("gp")
    assert "torch-autotune[gp]" in refused.value.advice


def test_passwords_are_never_said() -> None:
    said = keeping.without_password("postgresql://ada:secret@db.example/tuning?sslmode=require")
    assert said == "postgresql://ada:***@db.example/tuning?sslmode=require"
