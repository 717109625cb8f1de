"""A GPU that is steps behind the host, as one with a clock that is set by hand."""

import time
from collections.abc import Callable

import pytest
import torch

from autotune.workload import idle, pace
from autotune.workload.clock import Untimed
from autotune.workload.conversation import Ended, Halted, Rehearsed, Report
from autotune.workload.pace import Pace
from autotune.workload.window import Window
from tests import builders
from tests.workload.programs import steps

GPU = torch.device("cuda", 0)
LAUNCH, STEP, VALIDATION = 0.001, 0.01, 0.05  # seconds of the host, and of the device


class Gpu:
    """Does what it is given in turn; the host goes on meanwhile, unless it waits."""

    def __init__(self) -> None:
        self.now = 100.0
        self.done_at = 0.0
        self.capturing = False
        self.waited = 0

    def is_given(self, seconds: float) -> None:
        self.now += LAUNCH
        self.done_at = max(self.now, self.done_at) + seconds

    def synchronize(self, device: torch.device) -> None:
        assert device == GPU and not self.capturing
        self.now = max(self.now, self.done_at)
        self.waited += 1


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu()
    monkeypatch.setattr(time, "perf_counter", lambda: gpu.now)
    monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronize)
    monkeypatch.setattr(idle, "is_capturing", lambda: gpu.capturing)
    monkeypatch.setattr(pace, "peak_bytes", lambda _: None)
    monkeypatch.setattr(pace, "allocator", lambda _: None)
    return gpu


class Training:
    """A Pace of a program that never waits for its GPU while it trains."""

    def __init__(self, gpu: Gpu, *, window: int = 1000, device: torch.device = GPU) -> None:
        self.gpu = gpu
        self._conversation = Rehearsed(steps(window))
        clock = Untimed()
        clock.follow(device)
        self.pace = Pace(
            self._conversation,
            clock,
            see=builders.seen,
            feed=lambda _: "",
            drain=lambda _: "no loader",
            deliver=lambda _: pytest.fail("nobody draws"),
            watch=lambda _: None,
            device=lambda: device,
        )
        self.train(1)  # the start-up

    def train(self, count: int) -> None:
        for _ in range(count):
            self.gpu.is_given(STEP)
            self.pace.step()

    def validate(self, *, enter: bool = True) -> None:
        """Evaluate, and read what came out."""
        self.pace.leave_training()
        self.gpu.is_given(VALIDATION)
        self.gpu.synchronize(GPU)
        if enter:
            self.pace.enter_training()

    @property
    def reports(self) -> list[Report]:
        return self._conversation.reports


def closed(training: Training, last: Callable[[], None]) -> Window:
    """The window that closes with the last of what is done."""
    with pytest.raises(Halted):
        last()
    window = training.reports[-1]
    assert isinstance(window, Window)
    return window


def ended(training: Training) -> Window:
    training.pace.end()
    end = training.reports[-1]
    assert isinstance(end, Ended) and end.window is not None
    return end.window


def test_what_is_left_of_the_steps_is_none_of_the_validation_s_time(gpu: Gpu) -> None:
    training = Training(gpu, window=20)
    training.train(10)
    training.validate()
    window = closed(training, lambda: training.train(10))
    assert window.validations == 1
    assert window.seconds == pytest.approx(20 * STEP, abs=3 * LAUNCH)
    assert window.validation_seconds == pytest.approx(VALIDATION, abs=2 * LAUNCH)


def test_what_is_left_of_a_validation_is_none_of_the_steps_time(gpu: Gpu) -> None:
    training = Training(gpu, window=20)
    training.train(10)
    training.pace.leave_training()
    gpu.is_given(VALIDATION)  # nobody reads what comes out
    training.pace.enter_training()
    window = closed(training, lambda: training.train(10))
    assert window.seconds == pytest.approx(20 * STEP, abs=3 * LAUNCH)
    assert window.validation_seconds == pytest.approx(VALIDATION, abs=2 * LAUNCH)


def test_a_batch_that_was_drawn_for_a_validation_is_of_it(gpu: Gpu) -> None:
    training = Training(gpu, window=20)
    training.train(10)
    since, draw = gpu.now, 2 * STEP
    gpu.now += draw
    training.pace.leave_training(since)
    training.pace.enter_training()
    window = closed(training, lambda: training.train(10))
    assert window.validation_seconds == pytest.approx(draw)
    assert window.seconds == pytest.approx(20 * STEP - draw, abs=3 * LAUNCH)


def test_an_evaluation_in_every_step_is_not_waited_for(gpu: Gpu) -> None:
    training = Training(gpu)
    waited = []
    for _ in range(4):
        training.pace.leave_training()
        gpu.is_given(STEP)
        training.pace.enter_training()
        training.train(1)
        waited.append(gpu.waited)
    assert waited[0] == waited[-1]  # the first may be the only one


def test_nothing_is_waited_for_while_a_graph_is_captured(gpu: Gpu) -> None:
    training = Training(gpu)
    training.train(3)
    gpu.capturing = True
    training.pace.leave_training()
    training.pace.enter_training()
    gpu.capturing = False


def test_nothing_is_waited_for_on_a_cpu(gpu: Gpu) -> None:
    training = Training(gpu, window=20, device=torch.device("cpu"))
    training.train(10)
    training.pace.leave_training()
    training.pace.enter_training()
    closed(training, lambda: training.train(10))
    assert not gpu.waited


def test_what_comes_after_the_last_step_is_no_training(gpu: Gpu) -> None:
    training = Training(gpu)
    training.train(10)
    training.validate(enter=False)
    gpu.now += 3.0  # a checkpoint, plots
    assert ended(training).seconds == pytest.approx(10 * STEP, abs=2 * LAUNCH)


def test_a_program_that_just_ends_is_waited_for(gpu: Gpu) -> None:
    training = Training(gpu)
    training.train(10)
    assert ended(training).seconds == pytest.approx(10 * STEP, abs=2 * LAUNCH)
    unread = Training(gpu)
    unread.train(10)
    unread.pace.leave_training()
    gpu.is_given(3.0)
    assert ended(unread).seconds == pytest.approx(10 * STEP, abs=2 * LAUNCH)
