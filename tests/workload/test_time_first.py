"""Samples of a model that is given time before its samples, where no loader says how many."""

import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

from autotune.workload.parts.models import TimeFirst
from tests.workload.programs import observe, run, steps, window_of

PROGRAM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(10, 8), nn.Linear(8, 10)
        self.body = {body}

    def forward(self, tokens):
        x = self.embed(tokens)
        {forward}
        return self.out(x)

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    tokens = torch.randint(10, ({shape}))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()
"""
LSTM, ENCODER = "nn.LSTM(8, 8)", "nn.TransformerEncoderLayer(8, 2, 8)"


@pytest.mark.parametrize(
    ("body", "forward", "samples"),
    [
        (LSTM, "x = self.body(x)[0]", 4),
        (ENCODER, "x = self.body(x)", 4),
        ("nn.LSTM(8, 8, batch_first=True)", "x = self.body(x)[0]", 7),
        (LSTM, "x = self.body(x.transpose(0, 1))[0].transpose(0, 1)", 7),
        (LSTM, "pass  # it is there, and not called", 7),
    ],
)
def test_samples_come_after_time_where_the_model_takes_them_so(
    body: str, forward: str, samples: int, tmp_path: Path
) -> None:
    text = PROGRAM.format(body=body, forward=forward, shape="7, 4")
    window = window_of(run(text, steps(3), steps(5), phases=True, folder=tmp_path))
    assert window.samples == 5 * samples
    assert bool(observe(text, tmp_path).time_first) is (samples == 4)


def test_no_hook_stays_on_what_was_looked_at(tmp_path: Path) -> None:
    text = PROGRAM.format(body=LSTM, forward="pass", shape="7, 4").replace("1000", "9")
    text += textwrap.dedent("""
        assert not model.body._forward_pre_hooks
        """)
    run(text, steps(3), steps(20), folder=tmp_path)


@pytest.mark.parametrize("in_place", [True, False])
def test_what_is_compiled_is_not_looked_at_but_told(in_place: bool) -> None:
    model, shape, time_first = nn.LSTM(8, 8), torch.Size([7, 4, 8]), TimeFirst()
    if in_place:
        model.compile()
    compiled = model if in_place else torch.compile(model)
    time_first.look(compiled, shape)
    assert not model._forward_pre_hooks
    time_first.kinds = frozenset({"LSTM"})
    assert time_first.samples(compiled, shape) == 4
