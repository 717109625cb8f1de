"""Settings that the profile has found to be another training."""

from dataclasses import replace
from typing import Any

import pytest

from autotune.knobs import by_name
from autotune.knobs.knob import Value
from autotune.profiling.profile import THAWS, Doubt
from autotune.workload.found import Again, Apart
from tests.knobs.profiles import on_a_cpu, with_optimizer

FAR = Apart(apart=0.9, by_chance=0.01)
SAME = [
    Apart(apart=0.2, by_chance=0.0),
    Apart(apart=0.9, by_chance=0.5),
    Apart(apart=0.01, by_chance=0.01, more_calls=-0.05),
    None,
]


def test_channels_last_in_which_the_model_gives_something_else() -> None:
    knob, given = by_name("channels_last"), replace(on_a_cpu(), again=Again(channels_last=FAR))
    assert knob.contradicted(True, given) == (
        "the model then gives something else of the same batch (by 90 %): code of its own may go "
        "by the order in memory"
    )
    assert knob.contradicted(False, given) == ""


def test_a_format_in_which_the_model_gives_something_else() -> None:
    knob = by_name("precision")
    given = replace(on_a_cpu(), again=Again(formats={"bfloat16": FAR}))
    assert knob.contradicted("bf16", given) == (
        "in bf16 the model then gives something else of the same batch (by 90 %): part of it may "
        "need float32"
    )
    assert knob.contradicted("fp16", given) == knob.contradicted("fp32", given) == ""


def test_a_format_in_which_a_loop_of_the_model_ends_sooner() -> None:
    sooner = Apart(apart=0.01, by_chance=0.01, more_calls=-0.45)
    given = replace(on_a_cpu(), again=Again(formats={"bfloat16": sooner}))
    assert "calls 45 % fewer of torch's functions" in by_name("precision").contradicted(
        "bf16", given
    )


@pytest.mark.parametrize("found", SAME)
def test_what_is_near_or_may_be_chance_is_none(found: Apart | None) -> None:
    given = replace(on_a_cpu(), again=Again(channels_last=found, formats={"bfloat16": found}))
    assert by_name("channels_last").contradicted(True, given) == ""
    assert by_name("precision").contradicted("bf16", given) == ""


@pytest.mark.parametrize(("value", "refused"), [("fused", True), ("foreach", False)])
def test_a_fused_optimizer_beside_gradients_that_lie_otherwise(value: Value, refused: bool) -> None:
    knob = by_name("optimizer")
    given = with_optimizer(on_a_cpu(), strides_differ=True)
    assert ("mixes up which is whose" in knob.contradicted(value, given)) is refused
    assert bool(knob.is_another(value, given.seen)) is refused
    assert knob.contradicted(value, on_a_cpu()) == knob.is_another(value, on_a_cpu().seen) == ""


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"name": "SGD", "state_bytes": 400}, True),
        ({"name": "SGD", "state_bytes": 0}, False),  # no momentum
        ({"name": "AdamW", "state_bytes": 800}, False),  # it makes each weight's state by itself
    ],
)
def test_fused_sgd_is_none_where_weights_without_a_momentum_come_later(
    given: dict[str, Any], refused: bool
) -> None:
    thaws = replace(
        with_optimizer(on_a_cpu(), **given), doubts=(Doubt(name=THAWS, evidence="", advice=""),)
    )
    assert ("thawed later" in by_name("optimizer").contradicted("fused", thaws)) is refused
    without = replace(thaws, doubts=())
    assert by_name("optimizer").contradicted("fused", without) == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "SGD", "state_bytes": 400, "without_state": 1}, "1 weight has no momentum"),
        ({"name": "SGD", "state_bytes": 400, "without_state": 2}, "2 weights have no momentum"),
        ({"name": "SGD", "state_bytes": 0, "without_state": 2}, ""),
        ({"name": "AdamW", "state_bytes": 800, "without_state": 2}, ""),
    ],
)
def test_fused_sgd_is_none_beside_weights_that_have_no_momentum_yet(
    given: dict[str, Any], said: str
) -> None:
    profile, knob = with_optimizer(on_a_cpu(), **given), by_name("optimizer")
    assert knob.contradicted("fused", profile).startswith(said)
    assert bool(knob.contradicted("fused", profile)) is bool(said)
    assert knob.contradicted("foreach", profile) == ""


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
@pytest.mark.parametrize(
    ("weights", "said"),
    [("complex_weights", "complex numbers"), ("sparse_weights", "sparse gradients")],
)
def test_a_fused_optimizer_takes_no_such_weights(name: str, weights: str, said: str) -> None:
    given, knob = with_optimizer(on_a_cpu(), name=name, **{weights: True}), by_name("optimizer")
    assert said in knob.contradicted("fused", given)
    assert knob.contradicted("foreach", given) == ""
