"""The space holds what is worth searching, and a reason for all else."""

from dataclasses import replace

from autotune.knobs import KNOBS
from autotune.knobs.knob import Semantics
from autotune.profiling.profile import Profile
from autotune.trials.space import build_space
from autotune.workload.found import Denormals
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


def test_what_is_not_allowed_and_not_possible_either_is_told_so() -> None:
    def of_batches(profile: Profile) -> str:
        skipped = build_space(profile).skipped
        return next(each.reason for each in skipped if each.knob == "batch_size")

    profile = builders.profile()
    assert "--allow different" in of_batches(profile)
    without = replace(profile, seen=replace(profile.seen, loader=None))
    assert "no DataLoader" in of_batches(without)


def test_the_users_word_on_a_knob_is_the_last() -> None:
    profile = builders.profile()
    space = build_space(profile, given={"threads": (1, 2), "num_workers": None})
    assert set(space.choices["threads"]) >= {1, 2}
    assert "num_workers" not in space.choices


def test_a_knob_that_means_nothing_beside_the_others_is_left_out() -> None:
    given = {"num_workers": None, "persistent_workers": (False, True)}
    space = build_space(builders.profile(), given=given)
    assert "persistent_workers" not in space.choices
    reasons = {each.knob: each.reason for each in space.skipped}
    assert reasons["persistent_workers"] == "it means nothing while num_workers is 0"


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


def test_what_goes_along_is_in_all_that_differs_from_the_program() -> None:
    coming = Denormals(coming=0.3, after_steps=400, times_as_long=1.9)
    profile = replace(builders.profile(), denormals=coming)
    given = {"threads": (1, 2), "num_workers": (0, 2)}
    space = build_space(profile, given=given)
    own, along = dict(space.own), {"flush_denormal": True}
    assert space.along == along
    assert space.difference(own) == {} and space.difference({**own, **along}) == along
    workers = {"num_workers": 2, **along}
    assert space.difference({**own, "num_workers": 2}) == workers == space.difference(workers)
    refused = build_space(profile, given={**given, "flush_denormal": (False,)})
    assert refused.difference({"num_workers": 2}) == {"num_workers": 2}
    assert build_space(builders.profile(), given=given).along == {}


def test_parts_are_parts_of_the_programs_own_batch() -> None:
    space = build_space(
        builders.profile(),
        allow=Semantics.DIFFERENT,
        given={"batch_size": (64,), "micro_batches": (1, 2)},
    )
    assert "micro_batches" in {*space.choices, *(each.knob for each in space.skipped)}
    space = replace(
        space,
        choices={**space.choices, "micro_batches": (1, 2)},
        own={**space.own, "micro_batches": 1},
    )
    own = dict(space.own)
    both = {"batch_size": 64, "micro_batches": 2}
    assert space.difference({**own, **both}) == {"batch_size": 64}
    assert space.difference({**own, "micro_batches": 2}) == {"micro_batches": 2}


class TestNarrowed:
    space = build_space(
        builders.profile(),
        given={"num_workers": (0, 1, 2), "persistent_workers": (True,), "pin_memory": None},
    )

    def test_without_a_reason_nothing_changes(self) -> None:
        assert self.space.narrowed("num_workers", (0, 1, 2)) == self.space

    def test_values_that_are_refused_are_gone_and_said(self) -> None:
        narrowed = self.space.narrowed("num_workers", (0, 1), "two read over each other")
        assert narrowed.choices["num_workers"] == (0, 1)
        said = narrowed.skipped[-1]
        assert (said.knob, said.refused) == ("num_workers", True)
        assert said.reason == "two read over each other; what is left to try is 1"

    def test_a_knob_without_a_choice_is_left_out_with_those_that_need_it(self) -> None:
        narrowed = self.space.narrowed("num_workers", (0,), "they hang")
        assert {"num_workers", "persistent_workers"}.isdisjoint(narrowed.choices)
        assert narrowed.fixed["num_workers"] == 0
        reasons = {each.knob: each.reason for each in narrowed.skipped}
        assert reasons["num_workers"] == "they hang"
        assert "num_workers is 0" in reasons["persistent_workers"]
        assert narrowed.difference({"threads": 1}) == self.space.difference({"threads": 1})


def test_workers_that_there_are_none_of_are_no_reason() -> None:
    profile = builders.profile(step_seconds=100.0)  # an epoch so long that no worker's start counts
    reasons = {each.knob: each.reason for each in build_space(profile).skipped}
    assert "starting the workers anew" in reasons["persistent_workers"]
    without = build_space(profile, given={"num_workers": None})
    narrowed = build_space(profile).narrowed("num_workers", (0,), "it gives other samples")
    for space in (without, narrowed):
        reasons = {each.knob: each.reason for each in space.skipped}
        assert reasons["persistent_workers"] == "it means nothing while num_workers is 0"
    off = build_space(profile, given={"num_workers": None, "persistent_workers": None})
    assert {each.knob: each.reason for each in off.skipped}["persistent_workers"] == (
        "switched off by the user"
    )
