"""A training whose length or learning rate goes by the clock is told from one that counts steps."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.by_the_clock import ByTheClock, by_the_clock
from autotune.source.program import parsed


def found(text: str) -> ByTheClock:
    line = 1 + next(at for at, each in enumerate(text.splitlines()) if ".backward()" in each)
    return by_the_clock(
        parsed({"run.py": text}, Places(backward=Place(path="run.py", line=line)), "run.py")
    )


BUDGET = """\
import time

def train(model, optimizer, batches, lr_at):
    start = time.monotonic()
    while True:
        elapsed = time.monotonic() - start
        if {test}:
            break
        progress = min(1.0, elapsed / 150)
        lr = {rate}
        for group in optimizer.param_groups:
            group["lr"] = lr
        loss = model(next(batches))
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "rate", "told"),
    [
        ("elapsed > 150", "lr_at(step)", ByTheClock(end="run.py:7")),
        ("time.monotonic() - start >= 150", "lr_at(step)", ByTheClock(end="run.py:7")),
        ("loss < 0.1", "lr_at(progress)", ByTheClock(rate="run.py:12")),
        ("step > 150", "0.1 * (1 - elapsed / 150)", ByTheClock(rate="run.py:12")),
        ("step > 150", "lr_at(step)", ByTheClock()),
    ],
)
def test_a_condition_on_the_clock_and_a_rate_by_it_are_found(
    test: str, rate: str, told: ByTheClock
) -> None:
    assert found(BUDGET.format(test=test, rate=rate)) == told


def test_a_step_that_a_loop_by_the_clock_calls_is_trained_by_it() -> None:
    text = """\
from time import time

def step(model, batch, optimizer):
    model(batch).backward()
    optimizer.step()

def main(model, batches, optimizer):
    began = time()
    while time() - began < 60:
        step(model, next(batches), optimizer)
"""
    assert found(text) == ByTheClock(end="run.py:9")


@pytest.mark.parametrize(
    "body",
    [
        "if time.time() - said > 10:\n            print(loss)",
        "if time.time() - said > 10:\n            for x in held_out:\n                break",
        "seconds = time.time() - said\n        if loss < 1:\n            break",
        "if time.time() - said > 10:\n            if loss > 9:\n                break",
        "end = row + 64\n        if end > rows:\n            break\n    end = time.time()",
    ],
)
def test_what_is_only_said_by_the_clock_ends_nothing(body: str) -> None:
    text = f"""\
import time

def train(model, optimizer, loader, held_out):
    said = time.time()
    for batch in loader:
        loss = model(batch)
        loss.backward()
        optimizer.step()
        {body}
"""
    assert found(text) == ByTheClock()


def test_the_clock_may_be_read_in_the_condition_itself() -> None:
    text = """\
import time

start = time.monotonic()
while (spent := time.monotonic() - start) < 150:
    for group in optimizer.param_groups:
        group["lr"] = lr_at(spent / 150)
    loss = model(batch)
    loss.backward()
    optimizer.step()
"""
    assert found(text) == ByTheClock(end="run.py:4", rate="run.py:6")


OWN_CLOCK = """\
import time

class Budget:
    def __init__(self, seconds):
        self.seconds, self.began = seconds, time.monotonic()

    def used(self):
        return (time.monotonic() - self.began) / self.seconds

    def steps(self):
        return 1000

def train(model, optimizer, batches, lr_at):
    budget = Budget(720)
    for batch in batches:
        used = budget.{method}()
        if used >= 1 or not batch:
            break
        for group in optimizer.param_groups:
            group["lr"] = lr_at(used)
        model(batch).backward()
        optimizer.step()
"""


def test_a_clock_may_be_a_class_of_the_programs() -> None:
    assert found(OWN_CLOCK.format(method="used")) == ByTheClock(end="run.py:17", rate="run.py:20")
    assert found(OWN_CLOCK.format(method="steps")) == ByTheClock()


def test_its_time_may_be_a_property() -> None:
    text = OWN_CLOCK.replace("    def used", "    @property\n    def used")
    text = text.replace("    def steps", "    @property\n    def steps")
    of_time = text.replace("budget.{method}()", "budget.used")
    assert found(of_time) == ByTheClock(end="run.py:19", rate="run.py:22")
    asked = text.replace("used >= 1 or not batch", "budget.used >= 1").replace(".{method}()", "")
    assert found(asked).end == "run.py:19"
    assert found(text.replace("budget.{method}()", "budget.steps")) == ByTheClock()


def test_one_method_of_a_clock_may_ask_another() -> None:
    text = """\
import time

class Budget:
    def used(self):
        return (time.monotonic() - self.begin) / self.seconds

    def left(self):
        return self.used() < 1.0

    def full(self):
        return not self.left()

def main(model, batches, optimizer, budget):
    for batch in batches:
        if TEST:
            break
        model(batch).backward()
        optimizer.step()
"""
    assert found(text.replace("TEST", "not budget.left()")).end == "run.py:15"
    assert found(text.replace("TEST", "budget.full()")).end == "run.py:15"
    assert found(text.replace("TEST", "budget.empty()")) == ByTheClock()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('group["lr"] *= 0.5 ** (time.monotonic() - start)', ByTheClock(rate="run.py:7")),
        ('group["lr"].fill_(time.process_time() - start)', ByTheClock(rate="run.py:7")),
        ('group["lr"] *= 0.5', ByTheClock()),
        ("if time.time() - start > 9: sys.exit()", ByTheClock(end="run.py:7")),
        ("if time.time() - start > 9: raise SystemExit", ByTheClock(end="run.py:7")),
        ("if time.time() - start > 9: print(group)", ByTheClock()),
        (
            "done = time.time() - start > 9; \n            if done: return",
            ByTheClock(end="run.py:8"),
        ),
        (
            "spent += time.time() - start; \n            if spent > 9: return",
            ByTheClock(end="run.py:8"),
        ),
        (
            "spent, row = time.time() - start, 0; \n            if spent > 9: return",
            ByTheClock(end="run.py:8"),
        ),
        (
            "spent: float = time.time() - start; \n            if spent > 9: return",
            ByTheClock(end="run.py:8"),
        ),
        (
            "row, spent = time.time() - start, 0; \n            if spent > 9: return",
            ByTheClock(),
        ),
        ("if not go_on(): return", ByTheClock(end="run.py:7")),
        ("if group.go_on() and steps: return", ByTheClock(end="run.py:7")),
        ("done = len(batches) > 9; \n            if done: return", ByTheClock()),
    ],
)
def test_rates_and_ends_have_many_forms(line: str, told: ByTheClock) -> None:
    text = f"""\
import sys
import time

def train(model, optimizer, batches, start):
    for batch in batches:
        for group in optimizer.param_groups:
            {line}
        model(batch).backward()
        optimizer.step()

def go_on():
    return time.time() - began < 9
"""
    assert found(text) == told
