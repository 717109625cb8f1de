"""The program's own functions that a step waits for are named, and no others."""

from autotune.measurement.ablation import ablate
from autotune.profiling.course import doubts_of_threads
from autotune.workload.window import BESIDE
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


BESIDE_IT = (
    HEAD
    + """
import threading
import time

def prepared():
    return [number * number for number in range(10_000)]

def feed():
    while True:
        prepared()

def wait():
    threading.Event().wait()

for job in (feed, wait):
    threading.Thread(target=job, daemon=True).start()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
while True:
    optimizer.zero_grad()
    criterion(model(inputs), targets).backward()
    optimizer.step()
    time.sleep(0.005)
"""
)


def test_a_thread_that_computes_beside_the_training_is_named(start: Start) -> None:
    lines = ablate(lambda: start(BESIDE_IT), seconds=5.0, cores=2, warm_seconds=1.0).lines
    (beside,) = (line for line in lines if line.phase == BESIDE)
    assert beside.function in ("prepared", "<listcomp>")
    assert 0.25 < beside.share < 1.1
    (doubt,) = doubts_of_threads(lines)
    assert f"train.py:{beside.line}" in doubt.evidence
    assert not doubts_of_threads([line for line in lines if line is not beside])


def test_a_slow_dataset_and_slow_code_between_steps_are_named(start: Start) -> None:
    lines = ablate(lambda: start(SLOW), seconds=5.0, cores=2, warm_seconds=1.0).lines
    found = {(line.phase, line.function): line for line in lines}
    reading, own = found["data", "decoded"], found["other", "metrics"]
    assert SLOW.splitlines()[reading.line - 1].strip() == "time.sleep(0.001)"
    assert SLOW.splitlines()[own.line - 1].strip() == "time.sleep(0.020)"
    assert 0.15 < reading.share < own.share < 0.85
    assert reading.share + own.share > 0.7
