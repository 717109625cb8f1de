"""A validation that keeps gradients is no part of a step; what only looks like one is."""

import textwrap
from pathlib import Path

import pytest

from autotune.workload.steps.clock import HostClock
from tests.workload.programs import HEAD, run, steps, window_of

LOOP = """
import time
{before}
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(200):
    if step % 25 == 20:
        {between}
    optimizer.zero_grad()
    {forward}
    loss.backward()
    optimizer.step()
"""
FORWARD = "loss = criterion(model(inputs[:32]), targets[:32])"


def program(between: str, *, before: str = "", forward: str = FORWARD) -> str:
    indented = textwrap.indent(textwrap.dedent(between), " " * 8).strip()
    text = LOOP.replace("{between}", indented).replace("{forward}", forward)
    return HEAD + text.replace("{before}", textwrap.dedent(before))


SLOW = """
slow = False
model.register_forward_hook(lambda *_: time.sleep(0.01 * slow))
"""
VALIDATION = """
slow = True
for i in range(12):
    model(inputs[:32]).argmax(1)
slow = False
time.sleep(0.1)  # a plot
"""


@pytest.mark.parametrize("phases", [True, False])
def test_a_validation_that_keeps_gradients_is_none_of_a_steps_time(
    phases: bool, tmp_path: Path
) -> None:
    text = program(VALIDATION, before=SLOW)
    window = window_of(run(text, steps(10), steps(50), phases=phases, folder=tmp_path))
    assert window.validations == 2
    assert window.validation_seconds > 0.2  # of 0.44 that are slept, less two steps
    assert window.samples == 50 * 32


def test_a_validation_within_a_step_with_a_loader_is_left_out_too(tmp_path: Path) -> None:
    before = SLOW + "batches = iter(DataLoader(dataset, batch_size=1, sampler=[0] * 400))"
    forward = "x, y = next(batches); loss = criterion(model(x), y)"
    text = program(VALIDATION, before=before, forward=forward)
    window = window_of(run(text, steps(10), steps(50), folder=tmp_path))
    assert window.validations == 2


def test_a_validation_beside_accumulated_batches_is_left_out_too(tmp_path: Path) -> None:
    half = "criterion(model(inputs[:16]), targets[:16]).backward()"
    forward = f"{half}; loss = criterion(model(inputs[16:32]), targets[16:32])"
    between = VALIDATION.replace("[:32]", "[:16]").replace("12", "24")
    text = program(between, before=SLOW, forward=forward)
    window = window_of(run(text, steps(10), steps(50), folder=tmp_path))
    assert window.validations == 2
    assert window.samples == 50 * 32


LONGER = """
x = inputs[:32]
for i in range(12):
    x = x + model(x).mean()
    time.sleep(0.01)
(x.sum() / 100).backward()
"""
ROLLOUT = """
for i in range(12):
    model(inputs[:1]).argmax(1)
    time.sleep(0.01)
"""
ACTING = "with torch.no_grad():\n" + textwrap.indent(ROLLOUT, "    ")


@pytest.mark.parametrize("between", [LONGER, ROLLOUT, ROLLOUT.replace("[:1]", "[:20]"), ACTING])
def test_longer_sequences_and_rollouts_are_part_of_it(between: str, tmp_path: Path) -> None:
    window = window_of(run(program(between), steps(10), steps(50), folder=tmp_path))
    assert window.validations == 0
    assert max(window.step_seconds) > 0.1


OTHER = """
for i in range(12):
    other.zero_grad()
    criterion(second(inputs[:32]), targets[:32]).backward()
    other.step()
    for _ in range(2):
        second(inputs[:32]).argmax(1)
    time.sleep(0.01)
"""


def test_another_training_that_evaluates_with_gradients_is_no_validation(tmp_path: Path) -> None:
    before = "import copy; second = copy.deepcopy(model)\n"
    before += "other = torch.optim.SGD(second.parameters(), lr=1e-2)"
    text = program(OTHER, before=before)
    window = window_of(run(text, steps(10), steps(50), folder=tmp_path))
    assert window.validations == 0
    assert max(window.step_seconds) > 0.1


def test_spans_before_the_last_ones_are_taken_back() -> None:
    clock = HostClock()
    began, ended = clock.span("forward")
    for moment in range(10):
        began(moment)
        ended(moment + 0.5)
    clock.take_back("forward", 7, but=2)
    assert clock.drain() == {"forward": 3 * 0.5}
