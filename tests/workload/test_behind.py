"""A GPU that is steps behind the host, as one with a clock that is set by hand."""

import math
import time
from collections.abc import Callable, Sequence

import pytest
import torch

from autotune.workload.conversation import Ended, Halted, Report, RunWindow
from autotune.workload.steps import pace
from autotune.workload.steps.clock import Untimed
from autotune.workload.steps.pace import Pace
from autotune.workload.system import idle
from autotune.workload.window import REHEARSE, Window
from tests import builders
from tests.workload.programs import Rehearsed, steps

GPU = torch.device("cuda", 0)
LAUNCH, STEP, VALIDATION = 0.001, 0.01, 0.05  # seconds of the host, and of the device


class Gpu:
    """Does what it is given in turn; the host goes on meanwhile, unless it waits."""

    def __init__(self) -> None:
        self.now = 100.0
        self.done_at = 0.0
        self.capturing = False
        self.waited = 0
        self.peaks: list[float] = []

    def is_given(self, seconds: float) -> None:
        self.now += LAUNCH
        self.done_at = max(self.now, self.done_at) + seconds

    def synchronize(self, device: torch.device) -> None:
        assert device == GPU and not self.capturing
        self.now = max(self.now, self.done_at)
        self.waited += 1


class Event:
    """Is past when the device has come to where it was recorded."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._at = math.nan

    def record(self, stream: object) -> None:
        self._at = max(self._gpu.now, self._gpu.done_at)

    def synchronize(self) -> None:
        self._gpu.now = max(self._gpu.now, self._at)

    def elapsed_time(self, later: "Event") -> float:
        assert later._at <= self._gpu.now, "it would raise: the event is not past"
        return 1000 * (later._at - self._at)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu()
    monkeypatch.setattr(time, "perf_counter", lambda: gpu.now)
    monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronize)
    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: Event(gpu))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: device)
    monkeypatch.setattr(idle, "is_capturing", lambda: gpu.capturing)
    monkeypatch.setattr(pace, "peak_bytes", lambda _: None)
    monkeypatch.setattr(pace, "allocator", lambda _: None)
    monkeypatch.setattr(pace, "begin_peak", lambda _: gpu.peaks.append(gpu.now))
    return gpu


class Training:
    """A Pace of a program that never waits for its GPU while it trains, unless it reads losses.

    Args:
        counts: how many steps each window has.
        windows: those that are asked for otherwise.
        draw: seconds of the host for each batch.
    """

    def __init__(
        self,
        gpu: Gpu,
        *counts: int,
        windows: Sequence[RunWindow] = (),
        device: torch.device = GPU,
        draw: float = 0.0,
    ) -> None:
        self.gpu, self._draw, self.device = gpu, draw, device
        self._conversation = Rehearsed(*(windows or map(steps, counts or [1000])))
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
            device=lambda: self.device,
            rate=lambda: 1.0,
        )
        self.train(1)  # the start-up
        if device == GPU:
            self.train(1)  # leads in

    def train(self, count: int, *, read: bool = False) -> None:
        for _ in range(count):
            self.gpu.now += self._draw
            self.gpu.is_given(STEP)
            if read:
                self.gpu.synchronize(GPU)
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
    training = Training(gpu, 20)
    training.train(10)
    training.validate()
    window = closed(training, lambda: training.train(10))
    assert window.validations == 1
    assert window.seconds == pytest.approx(20 * STEP, abs=3 * LAUNCH)
    assert window.validation_seconds == pytest.approx(VALIDATION, abs=2 * LAUNCH)


def test_what_is_left_of_a_validation_is_none_of_the_steps_time(gpu: Gpu) -> None:
    training = Training(gpu, 20)
    training.train(10)
    training.pace.leave_training()
    gpu.is_given(VALIDATION)  # nobody reads what comes out
    training.pace.enter_training()
    window = closed(training, lambda: training.train(10))
    assert window.seconds == pytest.approx(20 * STEP, abs=3 * LAUNCH)
    assert window.validation_seconds == pytest.approx(VALIDATION, abs=2 * LAUNCH)


def test_a_batch_that_was_drawn_for_a_validation_is_of_it(gpu: Gpu) -> None:
    training = Training(gpu, 20)
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
    training = Training(gpu, 20, device=torch.device("cpu"))
    training.train(10)
    training.pace.leave_training()
    training.pace.enter_training()
    closed(training, lambda: training.train(10))
    assert not gpu.waited


def test_a_program_whose_model_is_gone_at_its_end_is_measured_to_it(gpu: Gpu) -> None:
    training = Training(gpu)
    training.train(10)
    training.device = torch.device("cpu")  # nobody knows a model any more
    assert ended(training).seconds == pytest.approx(10 * STEP, abs=2 * LAUNCH)


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


@pytest.mark.parametrize("draw", [0.0, 0.8 * STEP, 2 * STEP], ids=["none", "hidden", "longer"])
@pytest.mark.parametrize("count", [1, 3, 20])
def test_a_batch_that_is_drawn_while_the_gpu_computes_costs_nothing(
    gpu: Gpu, count: int, draw: float
) -> None:
    training = Training(gpu, count, count, draw=draw)
    training.train(count)
    window = closed(training, lambda: training.train(1 + count))
    assert window.steps == count
    assert window.seconds == pytest.approx(count * max(STEP, draw + LAUNCH))
    assert window.step_seconds == pytest.approx([window.seconds / count] * count, rel=0.2)


def test_where_steps_are_long_most_of_them_are_timed(gpu: Gpu) -> None:
    training = Training(gpu, windows=[RunWindow(seconds=LAUNCH / 2)])
    window = closed(training, lambda: training.train(9))
    assert window.steps == 3


def test_a_host_that_is_far_ahead_is_no_gain(gpu: Gpu) -> None:
    training = Training(gpu, 5, 50)
    for _ in range(40):  # a queue that fills until the first window closes
        gpu.is_given(STEP)
    window = closed(training, lambda: training.train(5 + 1 + 50))
    assert window.seconds == pytest.approx(50 * STEP)


def test_no_step_leads_in_where_the_host_waits_for_each(gpu: Gpu) -> None:
    training = Training(gpu, 4, 4, draw=STEP / 2)
    training.train(4, read=True)
    window = closed(training, lambda: training.train(4, read=True))
    assert window.steps == 4
    assert window.seconds == pytest.approx(4 * (STEP / 2 + LAUNCH + STEP))


def test_a_validation_after_the_step_that_leads_in_is_no_training(gpu: Gpu) -> None:
    training = Training(gpu, 20)
    training.validate()
    window = closed(training, lambda: training.train(20))
    assert window.validation_seconds == pytest.approx(VALIDATION, abs=2 * LAUNCH)
    assert window.seconds == pytest.approx(20 * STEP, abs=3 * LAUNCH)


def test_a_program_that_ends_with_the_step_that_leads_in_has_no_window(gpu: Gpu) -> None:
    training = Training(gpu)
    training.pace.end()
    end = training.reports[-1]
    assert isinstance(end, Ended) and end.window is None


def test_the_peak_of_memory_is_the_window_s(gpu: Gpu) -> None:
    training = Training(gpu, 5, 5)
    assert len(gpu.peaks) == 1  # what the first step took, in which cuDNN chooses, is none
    training.train(5)
    assert len(gpu.peaks) == 2


def test_batches_that_are_trained_twice_are_not_timed_and_none_leads_in(gpu: Gpu) -> None:
    asked = RunWindow(seconds=0.0, steps=4, mode=REHEARSE)  # two batches, whole and in parts
    training = Training(gpu, windows=[asked, *map(steps, [9])])
    training.train(3)
    (window,) = [each for each in training.reports if isinstance(each, Window)]
    assert window.steps == 4
