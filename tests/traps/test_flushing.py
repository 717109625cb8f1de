"""Zeros are left out for denormal numbers where a result that matters hangs on them."""

import functools
from collections.abc import Callable

import pytest

from autotune.measurement.untimed.flushing import vet_flushing
from tests.traps.conftest import Bench, Vet

PROGRAM = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
gate = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam([*net.parameters(), gate], lr=1e-3)
while True:
    x = torch.rand(16, 6)
    {made}
    loss = (net(x)[:, 0] + {given} - x.sum(-1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
# Charges in coulombs, whose products are multiplied back to energies, behind a gate that is closed.
CHARGES = "q = 6e-20 * (1 + x)\n    pair = q[:, :3] * q[:, 3:]\n    "
ENERGIES = CHARGES + "energy = pair * torch.exp(-x[:, :3]) * 9e9 / 3e-10 / 4e-21"
IN_PLACE = CHARGES + "energy = pair.clone().mul_(9e9).div_(3e-10).div_(4e-21)"
TAILS = "wave = torch.exp(-(30 * x - torch.arange(6.0)) ** 2 / 4)"


@pytest.mark.parametrize(
    ("made", "given", "line"),
    [
        (ENERGIES, "gate * energy.sum(-1)", 12),
        (IN_PLACE, "gate * energy.sum(-1)", 12),
        (f"{TAILS}.clamp_min(1e-42)", "gate * wave.log().sum(-1)", 11),
        (f"{TAILS} * 1e-38", "gate * (wave / wave.sum(-1, keepdim=True)).sum(-1)", 11),
    ],
    ids=["multiplied back", "in place", "a logarithm", "a share"],
)
def test_those_that_matter_are_refused_with_their_line(
    flushing: Vet, made: str, given: str, line: int
) -> None:
    found = flushing(PROGRAM.format(made=made, given=given), (False, True))
    assert found.values == (False,)
    assert found.reason.startswith(f"numbers below 1.2e-38 matter at train.py:{line}")


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (TAILS, "gate * wave.sum(-1)"),
        (CHARGES + "energy = pair", "gate * energy.sum(-1)"),
        (CHARGES + "energy = 1.0 + 9e9 * pair", "gate * energy.sum(-1)"),
        (f"{TAILS}; wave[:, 0] = 5.0", "gate * wave.sum(-1)"),
        (f"{TAILS}; kept = torch.dropout(wave, 0.5, True)", "gate * kept.sum(-1)"),
    ],
    ids=["tails", "no more than tiny", "beside an ordinary number", "a part is written", "drawn"],
)
def test_others_are_not(flushing: Vet, made: str, given: str) -> None:
    assert flushing(PROGRAM.format(made=made, given=given), (False, True)).values == (False, True)


@pytest.mark.parametrize("text", ["", "raise ValueError"], ids=["sooner", "fails so"])
def test_those_that_come_late_are_found_where_they_come_sooner(
    bench: Callable[[str], Bench], text: str
) -> None:
    late = f"step += 1\n    {CHARGES.replace('6e-20', '(6e-20 if step > 400 else 1.0)')}"
    energies = f"{late}energy = pair * 9e9 / 3e-10 / 4e-21 * (step > 400)"
    program = "step = 0\n" + PROGRAM.format(made=energies, given="gate * energy.sum(-1)")
    made = bench(program)
    soon = text or program.replace("400", "2")
    vetted = vet_flushing(
        made.start, (False, True), sooner=functools.partial(made.start, text=soon), seconds=20.0
    )
    assert vetted.values == ((False, True) if text else (False,)), vetted.reason
