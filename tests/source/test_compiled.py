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
ROUNDED = "def rounded(x):\n    low = x.half()\n    {then}return x - low.to(torch.float32)\n"
HOOKED = """\
class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_forward_hook(print)
"""
DRAWN = CACHED.format(cache="lru_cache(8)", drawn="torch.randperm(width)")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, ""),
        ({"before": "rounding(model)"}, ""),  # is compiled with them
        ({"above": HOOKED, "before": "model = Hooked()"}, ""),
        ({"step": "if step == 9: rounding(model)"}, "hooks are registered at train.py:11"),
        (
            {"step": "if step == 9: model.register_forward_pre_hook(print)"},
            "hooks are registered at train.py:18",
        ),
        (
            {"above": DRAWN, "forward": "x[wiring(3)]"},
            "the function at train.py:6 has a cache and may draw",
        ),
        (
            {
                "above": CACHED.format(cache="cache", drawn="torch.arange(width)"),
                "forward": "x[wiring(3)]",
            },
            "",
        ),
        ({"above": DRAWN, "step": "wiring(3)"}, ""),  # is not compiled
        ({"forward": "x - x.half().float()"}, "numbers may be rounded at train.py:8 by"),
        (
            {"forward": "x.to(torch.bfloat16).to(dtype=torch.float32)"},
            "numbers may be rounded at train.py:8 by",
        ),
        (
            {"above": ROUNDED.format(then=""), "forward": "rounded(x)"},
            "numbers may be rounded at train.py:7 by",
        ),
        ({"above": ROUNDED.format(then="low = layer(low); "), "forward": "rounded(x)"}, ""),
        ({"forward": "x.half().type_as(x)"}, "numbers may be rounded at train.py:8 by"),
        ({"forward": "x.half().to(x.dtype)"}, "numbers may be rounded at train.py:8 by"),
        ({"step": "x = x.half().float()"}, ""),  # is not compiled
        ({"forward": "x.half()", "step": "loss = x.float()"}, ""),
    ],
)
def test_it_is_refused_where_it_would_do_something_else(
    changed: dict[str, str], reason: str
) -> None:
    outcome = rewritten(PROGRAM.format(**{**OWN, **changed}), COMPILED)
    assert outcome.statuses == (["refused"] if reason else ["done"]), outcome.reason
    assert outcome.reason.startswith(reason) and outcome.outcomes[0].forbidden == bool(reason)
