"""Gradients are freed where zeros in their place do not move weights."""

import functools
from collections.abc import Callable

import pytest

from autotune.measurement.untimed.gradients import vet_freed_gradients
from tests.traps.conftest import Bench, Vet

BOTH = (False, True)
PROGRAM = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

inputs = torch.randn(640, 4, generator=torch.Generator().manual_seed(0))
loader = DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=16)
trunk = nn.Linear(4, 8)
heads = nn.ModuleList(nn.Linear(8, 2) for _ in range(2))
weights = [*trunk.parameters(), *heads.parameters()]
optimizer = torch.optim.SGD(weights, lr=0.01, momentum=0.9, weight_decay=0.01)
step = 0
{before}
for epoch in range({epochs}):
    for x, y in loader:
        outputs = [head(torch.relu(trunk(x))) for head in heads]
        def loss():
            optimizer.zero_grad(set_to_none=False)
            value = nn.functional.cross_entropy({output}, y)
            value.backward()
            return value
        {update}
        step += 1
"""
PLAIN = "loss(); optimizer.step()"


ALL = "outputs[0] + outputs[1]"
# Gradients that the program fills once and goes on with.
ZEROS = "for weight in weights: weight.grad = torch.zeros_like(weight)"
ONE_BY_ONE = f"{ZEROS}\ngradients = [weight.grad for weight in weights]"
FLAT = """
flat = torch.zeros(sum(weight.numel() for weight in weights))
for weight, part in zip(weights, flat.split([weight.numel() for weight in weights])):
    weight.grad = part.view_as(weight)
"""


def program(output: str = ALL, update: str = PLAIN, *, epochs: int = 1000, before: str = "") -> str:
    return PROGRAM.format(output=output, update=update, epochs=epochs, before=before)


class TestTheSameTraining:
    @pytest.mark.parametrize(
        "before", ["", "for w in heads[1].parameters(): w.requires_grad = False"]
    )
    def test_is_had_where_every_weight_has_a_gradient_or_never_can(
        self, freed: Vet, before: str
    ) -> None:
        vetted = freed(program("outputs[0]" if before else ALL, before=before), BOTH)
        assert vetted.values == BOTH, vetted.reason

    @pytest.mark.parametrize(
        "update",
        [
            "loss(); torch.nn.utils.clip_grad_norm_(weights, 1.0); optimizer.step()",
            "loss(); sizes = [float(weight.grad.norm()) for weight in weights]; optimizer.step()",
            "loss()\n        for weight in weights: last = weight.grad\n        optimizer.step()",
        ],
        ids=["clipping", "sizes", "a variable that holds the last"],
    )
    def test_is_had_where_gradients_are_only_looked_at(self, freed: Vet, update: str) -> None:
        vetted = freed(program(update=update), BOTH)
        assert vetted.values == BOTH, vetted.reason

    def test_is_had_where_an_optimizer_keeps_something_of_every_weight_from_the_start(
        self, freed: Vet
    ) -> None:
        adagrad = program().replace("SGD(", "Adagrad(").replace("momentum=0.9, ", "")
        vetted = freed(adagrad, BOTH)
        assert vetted.values == BOTH, vetted.reason

    def test_is_had_where_a_closure_computes_all_gradients(self, freed: Vet) -> None:
        update = "optimizer.step(loss); optimizer.zero_grad(set_to_none=False)"
        vetted = freed(program("sum(outputs)", update), BOTH)
        assert vetted.values == BOTH, vetted.reason


class TestAnotherTraining:
    @pytest.mark.parametrize("update", [PLAIN, "optimizer.step(loss)"], ids=["plain", "closure"])
    @pytest.mark.parametrize(
        "output",
        [
            "outputs[step % 2]",
            "outputs[0] + (0 if step else outputs[1])",
            "outputs[step // 51 % 2]",
        ],
        ids=["heads in turns", "a head in the first step only", "one that has its turn later"],
    )
    def test_is_found_where_a_weight_goes_without_after_its_first(
        self, freed: Vet, output: str, update: str
    ) -> None:
        vetted = freed(program(output, update), BOTH)
        assert vetted.values == (False,)
        assert "some weights have no gradient in some steps" in vetted.reason

    @pytest.mark.parametrize("before", [ONE_BY_ONE, FLAT], ids=["one by one", "parts of one"])
    def test_is_feared_where_the_program_holds_on_to_gradients(
        self, freed: Vet, before: str
    ) -> None:
        vetted = freed(program(before=before), BOTH)
        assert vetted.values == (False,)
        assert "holds on to its gradients" in vetted.reason

    def test_is_feared_where_the_program_ends_before_it_is_seen(self, freed: Vet) -> None:
        short = program("sum(outputs)", f"{PLAIN}\n        if step > 9: break", epochs=1)
        vetted = freed(short, BOTH)
        assert vetted.values == (False,)
        assert "could not be seen" in vetted.reason

    @pytest.mark.parametrize("text", ["", "raise ValueError"], ids=["sooner", "fails so"])
    def test_is_found_where_a_weight_goes_without_late(
        self, bench: Callable[[str], Bench], text: str
    ) -> None:
        late = program("outputs[0] + (outputs[1] if step < 420 else 0)")
        made = bench(late)
        made.observe()
        sooner = functools.partial(made.start, text=text or late.replace("420", "2"))
        vetted = vet_freed_gradients(
            made.start,
            BOTH,
            False,
            step_seconds=0.01,
            seconds=0.0,
            most_seconds=10.0,
            sooner=sooner,
        )
        assert vetted.values == (BOTH if text else (False,)), vetted.reason
