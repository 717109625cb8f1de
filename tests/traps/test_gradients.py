"""Gradients are freed where zeros in their place do not move weights."""

import pytest

from tests.traps.conftest import Vet

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


def program(output: str, update: str = PLAIN, epochs: int = 1000) -> str:
    return PROGRAM.format(output=output, update=update, epochs=epochs)


class TestTheSameTraining:
    @pytest.mark.parametrize(
        "output",
        ["outputs[0] + outputs[1]", "outputs[0]", "outputs[0] + (outputs[1] if step > 9 else 0)"],
        ids=["every weight", "a head that never gets any", "one that gets its first later"],
    )
    def test_is_had_where_a_weight_goes_without_only_before_its_first(
        self, freed: Vet, output: str
    ) -> None:
        vetted = freed(program(output), BOTH)
        assert vetted.values == BOTH, vetted.reason

    def test_is_had_where_a_closure_computes_all_gradients(self, freed: Vet) -> None:
        update = "optimizer.step(loss); optimizer.zero_grad(set_to_none=False)"
        vetted = freed(program("sum(outputs)", update), BOTH)
        assert vetted.values == BOTH, vetted.reason


class TestAnotherTraining:
    @pytest.mark.parametrize("update", [PLAIN, "optimizer.step(loss)"], ids=["plain", "closure"])
    @pytest.mark.parametrize(
        "output",
        ["outputs[step % 2]", "outputs[0] + (0 if step else outputs[1])"],
        ids=["heads in turns", "a head in the first step only"],
    )
    def test_is_found_where_a_weight_goes_without_after_its_first(
        self, freed: Vet, output: str, update: str
    ) -> None:
        vetted = freed(program(output, update), BOTH)
        assert vetted.values == (False,)
        assert "some weights have no gradient in some steps" in vetted.reason

    def test_is_feared_where_the_program_ends_before_it_is_seen(self, freed: Vet) -> None:
        short = program("sum(outputs)", f"{PLAIN}\n        if step > 9: break", epochs=1)
        vetted = freed(short, BOTH)
        assert vetted.values == (False,)
        assert "could not be seen" in vetted.reason
