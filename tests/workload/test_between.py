"""Python inside a forward pass is told from operations that its own lines call."""

from pathlib import Path

from autotune.profiling.between import own_lines
from autotune.workload.conversation import RunWindow, Watched
from autotune.workload.found import Between
from autotune.workload.window import BETWEEN
from tests.workload.programs import run

BOTH = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def match(x):
    found = 0
    for number in range(1_000_000):
        found += number % 7
    return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(700, 700) / 30)

    def mixed(self, x):
        for _ in range(6):
            x = x @ self.weights
        return x

    def forward(self, x):
        return self.mixed(match(x)).mean()

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(50):
    for x, in DataLoader(TensorDataset(torch.randn(1400, 700)), batch_size=700):
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()
"""


def test_a_loop_in_python_is_named_and_products_of_a_line_are_not(tmp_path: Path) -> None:
    command = RunWindow(seconds=0.5, steps=4, mode=BETWEEN)
    watched = run(BOTH, RunWindow(seconds=0.0), command, RunWindow(seconds=0.0), folder=tmp_path)[2]
    assert isinstance(watched, Watched) and isinstance(watched.found, Between)
    seen = {look.function for look in watched.found.inside}
    assert seen >= {"match", "mixed"}
    lines = {line.function: line.share for line in own_lines(watched.found)}
    assert lines["match"] > 0.1
    assert lines.get("mixed", 0.0) < 0.25 * lines["match"]  # now and then it waits for a processor
