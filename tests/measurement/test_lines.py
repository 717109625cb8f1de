"""The program's own functions that a step waits for are named, and no others."""

from autotune.measurement.ablation import ablate
from tests.measurement.conftest import Start
from tests.workload.programs import HEAD

SLOW = (
    HEAD
    + """
import time

class Slow(TensorDataset):
    def __getitem__(self, index):
        return self.decoded(index)

    def decoded(self, index):
        time.sleep(0.001)
        return super().__getitem__(index)

def metrics():
    time.sleep(0.020)

loader = DataLoader(Slow(inputs, targets), batch_size=10)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(5000):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        metrics()
"""
)


def test_a_slow_dataset_and_slow_code_between_steps_are_named(start: Start) -> None:
    lines = ablate(lambda: start(SLOW), seconds=5.0, cores=2, warm_seconds=1.0).lines
    found = {(line.phase, line.function): line for line in lines}
    reading, own = found["data", "decoded"], found["other", "metrics"]
    assert SLOW.splitlines()[reading.line - 1].strip() == "time.sleep(0.001)"
    assert SLOW.splitlines()[own.line - 1].strip() == "time.sleep(0.020)"
    assert 0.15 < reading.share < own.share < 0.85
    assert reading.share + own.share > 0.7
