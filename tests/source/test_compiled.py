"""`compile` is refused where a compiled model would do something else without a word."""

import pytest

from autotune.source.edits import ModelStatement
from tests.source.programs import rewritten

COMPILED = ModelStatement(code="{model}.compile(dynamic=False)", compiled=True)
PROGRAM = """\
import functools
import torch
from torch import nn

{above}
class Net(nn.Module):
    def forward(self, x):
        return {forward}

def rounding(net):
    return net.register_forward_hook(lambda *given: given[-1].round())

def main(batches):
    model = Net()
    {before}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, x in enumerate(batches):
        {step}
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""
OWN = {"above": "", "forward": "x", "before": "pass", "step": "pass"}
CACHED = "@functools.{cache}\ndef wiring(width):\n    return {drawn}\n"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, ""),
        ({"before": "rounding(model)"}, ""),  # is compiled with them
        ({"step": "if step == 9: rounding(model)"}, "hooks are registered at /project/train.py:11"),
        (
            {"step": "if step == 9: model.register_forward_pre_hook(print)"},
            "hooks are registered at /project/train.py:18",
        ),
        (
            {"above": CACHED.format(cache="lru_cache(8)", drawn="torch.randperm(width)")},
            "the function at /project/train.py:6 keeps what it has drawn by chance",
        ),
        ({"above": CACHED.format(cache="cache", drawn="torch.arange(width)")}, ""),
    ],
)
def test_it_is_refused_where_hooks_come_later_or_chance_is_kept(
    changed: dict[str, str], reason: str
) -> None:
    outcome = rewritten(PROGRAM.format(**{**OWN, **changed}), COMPILED)
    assert outcome.statuses == (["refused"] if reason else ["done"]), outcome.reason
    assert outcome.reason.startswith(reason) and outcome.outcomes[0].forbidden == bool(reason)
