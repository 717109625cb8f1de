"""What holds for every knob, value and profile; a new knob is tested by being in KNOBS."""

import tomllib
from typing import get_args

import pytest
import tomli_w
import torch

from autotune.diagnosis import Bottleneck
from autotune.errors import UsageError
from autotune.knobs import KNOBS, by_name, check, read_all, setup_for, unobserved
from autotune.knobs.knob import Choices, Knob, Semantics, Skip, Value
from autotune.knobs.page import HEADINGS, page_of
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ModelStatement, ProcessStatement
from autotune.trials.space import build_space
from autotune.workload.setup import Setup
from tests.knobs.profiles import PROFILES

every_knob = pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)


def some_values(knob: Knob) -> tuple[Value, ...]:
    """Every value of a closed set; the ends and a few more of a range."""
    if isinstance(knob.admits, range):
        return tuple(dict.fromkeys((*knob.admits[:5], knob.admits[-1])))
    return tuple(knob.admits)


every_value = pytest.mark.parametrize(
    ("knob", "value"),
    [pytest.param(k, value, id=f"{k.name}={value}") for k in KNOBS for value in some_values(k)],
)


@every_knob
def test_is_documented(knob: Knob) -> None:
    page = page_of(knob)
    assert tuple(page.sections) == HEADINGS
    assert page.summary.endswith(".")
    assert all(text.endswith(".") for text in page.sections.values())


@every_knob
def test_relieves_bottlenecks_that_there_are(knob: Knob) -> None:
    assert knob.relieves
    assert knob.relieves <= set(Bottleneck)


@every_knob
@every_profile
def test_the_programs_own_value_is_what_is_read(knob: Knob, profile: Profile) -> None:
    domain = knob.domain(profile)
    if isinstance(domain, Choices):
        assert domain.own == knob.read(profile.seen)
        assert type(domain.own) is type(knob.admits[0])


@every_knob
@every_profile
def test_offers_a_choice_of_values_that_it_can_take(knob: Knob, profile: Profile) -> None:
    domain = knob.domain(profile)
    if isinstance(domain, Choices):
        assert len(set(domain.values)) == len(domain.values) >= 2
        for value in domain.values:
            check(knob, value)


@every_knob
@every_profile
def test_a_skip_has_a_reason(knob: Knob, profile: Profile) -> None:
    domain = knob.domain(profile)
    if isinstance(domain, Skip):
        assert len(domain.reason.split()) >= 4
        assert not domain.reason.endswith(".")


@every_knob
def test_is_offered_somewhere_and_skipped_somewhere(knob: Knob) -> None:
    domains = [knob.domain(profile) for profile in PROFILES.values()]
    assert any(isinstance(domain, Choices) for domain in domains)
    assert any(isinstance(domain, Skip) for domain in domains)


@every_knob
@every_profile
def test_what_is_another_training_is_only_offered_where_that_is_allowed(
    knob: Knob, profile: Profile
) -> None:
    if knob.semantics is Semantics.DIFFERENT:
        space, domain = build_space(profile), knob.domain(profile)
        (reason,) = (each.reason for each in space.skipped if each.knob == knob.name)
        if isinstance(domain, Choices):
            assert "another training" in reason and "--allow different" in reason
        else:
            assert reason == domain.reason
        offered = build_space(profile, allow=Semantics.DIFFERENT).choices
        assert (knob.name in offered) is isinstance(knob.domain(profile), Choices)


@every_value
def test_what_is_another_training_is_said_in_sentences(knob: Knob, value: Value) -> None:
    said = knob.otherwise(value, PROFILES["on a CPU"].seen)
    assert bool(said) is (knob.semantics is Semantics.DIFFERENT)
    assert said.endswith("." if said else "")


@every_value
def test_values_survive_toml(knob: Knob, value: Value) -> None:
    settings = tomllib.loads(tomli_w.dumps({knob.name: value}))
    assert settings == {knob.name: value}
    assert type(settings[knob.name]) is type(value)


@every_value
@every_profile
def test_edits_are_of_the_closed_list_and_valid_python(
    knob: Knob, value: Value, profile: Profile
) -> None:
    for edit in knob.edits(value, profile.seen):
        assert isinstance(edit, get_args(Edit))
        if isinstance(edit, ModelStatement | ProcessStatement):
            compile(edit.code.replace("{model}", "self.model"), "edit", "exec")
        for statement in getattr(edit, "imports", ()):
            compile(statement, "edit", "exec")


@every_value
def test_applying_twice_is_applying_once(knob: Knob, value: Value) -> None:
    once, twice = Setup(), Setup()
    knob.apply(once, value)
    knob.apply(twice, value)
    knob.apply(twice, value)
    assert once.loader == twice.loader
    assert once.optimizer == twice.optimizer
    assert once.precision == twice.precision
    assert once.micro_batches == twice.micro_batches
    assert (once.non_blocking, once.set_to_none) == (twice.non_blocking, twice.set_to_none)


@every_knob
def test_a_setup_without_it_is_the_program_as_it_is(knob: Knob) -> None:
    assert setup_for({}) == Setup()


@every_knob
def test_an_observed_value_is_not_missed(knob: Knob) -> None:
    profile = PROFILES["on a CPU"]
    own = read_all(profile.seen)
    assert unobserved(own, profile.seen) == []


@every_value
def test_a_value_that_was_not_observed_is_missed_in_a_sentence(knob: Knob, value: Value) -> None:
    seen = PROFILES["on a GPU"].seen
    whole = {**read_all(seen), knob.name: value}
    missed = unobserved({knob.name: value}, seen)
    if value == knob.read(seen) or not knob.active(whole):
        assert missed == []
    else:
        assert len(missed) == 1
        assert missed[0].startswith(f"{knob.name} = ")
        assert " was asked for, and the run had " in missed[0]


@every_knob
def test_a_value_of_another_type_is_refused(knob: Knob) -> None:
    for value in ("nonsense", -1_000_000, 1.5, None):
        with pytest.raises(UsageError):
            check(knob, value)  # type: ignore[arg-type]


def test_true_is_no_number_of_workers() -> None:
    with pytest.raises(UsageError):
        setup_for({"num_workers": True})


def test_names_are_unique_and_found() -> None:
    assert len({knob.name for knob in KNOBS}) == len(KNOBS)
    assert all(by_name(knob.name) is knob for knob in KNOBS)
    with pytest.raises(UsageError, match="no knob called 'workers'"):
        by_name("workers")


def test_the_model_is_compiled_after_everything_else_is_done_to_it() -> None:
    """A layout or a wrapped block that came later would be compiled anew, or not at all."""
    order = [knob.name for knob in KNOBS]
    assert order.index("channels_last") < order.index("compile")
    assert order.index("checkpointing") < order.index("compile")


def test_a_switch_is_thrown_again_before_training() -> None:
    before = torch.get_num_threads()
    try:
        setup = setup_for({"threads": 1})
        for switch in setup.process:
            switch()
        torch.set_num_threads(3)  # the program has its say
        for change in setup.model:
            change(torch.nn.Linear(1, 1))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_prefetching_is_not_missed_without_workers() -> None:
    profile = PROFILES["on a CPU"]
    assert unobserved({"prefetch_factor": 4}, profile.seen) == []
