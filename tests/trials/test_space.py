"""The space holds what is worth searching, and a reason for all else."""

import pytest

from autotune.errors import UsageError
from autotune.knobs import KNOBS
from autotune.knobs.knob import Semantics
from autotune.trials.space import build_space
from tests import builders


def test_every_knob_is_searched_or_skipped_with_a_reason() -> None:
    space = build_space(builders.profile())
    named = [*space.choices, *(skipped.knob for skipped in space.skipped)]
    assert sorted(named) == sorted(knob.name for knob in KNOBS)
    assert all(skipped.reason for skipped in space.skipped)
    assert all(space.own[name] in values for name, values in space.choices.items())


def test_only_identical_changes_where_no_more_is_allowed() -> None:
    space = build_space(builders.profile(), allow=Semantics.IDENTICAL)
    allowed = {knob.name for knob in KNOBS if knob.semantics is Semantics.IDENTICAL}
    assert set(space.choices) <= allowed


def test_the_users_word_on_a_knob_is_the_last() -> None:
    profile = builders.profile()
    space = build_space(profile, given={"threads": (1, 2), "num_workers": None})
    assert set(space.choices["threads"]) >= {1, 2}
    assert "num_workers" not in space.choices
    with pytest.raises(UsageError, match="no knob called numworkers"):
        build_space(profile, given={"numworkers": (1,)})


def test_a_config_is_what_differs_and_means_something() -> None:
    space = build_space(
        builders.profile(),
        given={"num_workers": (0, 2), "prefetch_factor": (2, 4), "threads": (1, 2)},
    )
    own = dict(space.own)
    assert space.difference(own) == {}
    assert space.difference({**own, "num_workers": 2}) == {"num_workers": 2}
    assert "prefetch_factor" not in space.difference(
        {**own, "num_workers": 0, "prefetch_factor": 4}
    )
