"""The program's own functions that a step waits for are named, and no others."""

import sys
import threading
import time

import pytest

from autotune.measurement.ablation import ablate
from autotune.profiling.course import doubts_of_threads
from autotune.workload.found import BESIDE
from autotune.workload.looks import threads
from autotune.workload.looks.threads import ThreadsBeside
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


IN_PARTS = (
    HEAD
    + """
import time

class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = model

    def scores(self, x):
        time.sleep(0.010)
        return self.part(x)

    def train_on(self, x, y, optimizer):
        time.sleep(0.010)
        optimizer.zero_grad()
        criterion(self.scores(x), y).backward()
        optimizer.step()

whole = Whole()
optimizer = torch.optim.AdamW(whole.parameters(), lr=1e-2)
while True:
    whole.train_on(inputs, targets, optimizer)
"""
)


def test_a_part_of_a_model_that_is_called_by_itself_is_forward(start: Start) -> None:
    lines = ablate(lambda: start(IN_PARTS), seconds=5.0, cores=2, warm_seconds=1.0).lines
    phases = {line.function: line.phase for line in lines}
    assert phases == {"scores": "forward", "train_on": "other"}


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


def test_a_thread_that_has_ended_takes_nothing_from_those_that_compute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "is_users", lambda path: path == __file__)
    monkeypatch.setattr(threads, "LEAST_SHARE", 0.01)  # the machine may be busy
    over, spent = threading.Event(), {"ends": 0.0}

    def compute(until: threading.Event) -> None:
        while not until.is_set():
            spent["ends"] = max(spent["ends"], time.thread_time())

    ends = threading.Thread(target=compute, args=(over,), daemon=True)
    ends.start()
    while spent["ends"] < 0.5:
        time.sleep(0.01)
    beside = ThreadsBeside(threading.get_ident())
    beside.note(sys._current_frames())
    over.set()
    ends.join()
    stop = threading.Event()
    goes_on = threading.Thread(target=compute, args=(stop,), daemon=True)
    goes_on.start()
    before = time.process_time()
    while time.process_time() < before + 0.3:
        time.sleep(0.01)
        beside.note(sys._current_frames())
    (line,) = beside.busy()
    stop.set()
    assert line.function == "compute" and 0.01 < line.share < 1.5


def test_a_slow_dataset_and_slow_code_between_steps_are_named(start: Start) -> None:
    lines = ablate(lambda: start(SLOW), seconds=5.0, cores=2, warm_seconds=1.0).lines
    found = {(line.phase, line.function): line for line in lines}
    reading, own = found["data", "decoded"], found["other", "metrics"]
    assert SLOW.splitlines()[reading.line - 1].strip() == "time.sleep(0.001)"
    assert SLOW.splitlines()[own.line - 1].strip() == "time.sleep(0.020)"
    assert 0.15 < reading.share < own.share < 0.85
    assert reading.share + own.share > 0.7
