"""The beat of a live run: counts steps and samples, closes windows, and asks what comes next."""

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from autotune.workload.conversation import (
    Conversation,
    Drawing,
    Ended,
    Halt,
    Halted,
    Ready,
    Report,
    RunWindow,
    Tell,
    Unsupported,
    Watched,
)
from autotune.workload.looks.watch import Watch
from autotune.workload.seen import Seen
from autotune.workload.steps.beat import Beat
from autotune.workload.steps.clock import Clock
from autotune.workload.steps.losses import Losses
from autotune.workload.steps.open_window import Edges, OpenWindow
from autotune.workload.steps.passes import Strays
from autotune.workload.system.idle import is_capturing, seconds_until_idle
from autotune.workload.system.memory import allocator, begin_peak, peak_bytes
from autotune.workload.system.processor import Processor
from autotune.workload.window import DRAIN, REHEARSE, Window

# Trainings are compared by their first losses; later ones only show whether they still are numbers.
LOSSES_READ, LOSS_EVERY = 200, 8


class Pace(Beat):
    """Counts what the seams report and talks with the controller at step boundaries."""

    def __init__(
        self,
        conversation: Conversation,
        clock: Clock,
        *,
        see: Callable[[], Seen],  # what the run was made of so far
        feed: Callable[[str], str],  # the loop in a mode; "", or a reason why that is impossible
        # From the training loader for some seconds: batches and samples, or a reason why not.
        drain: Callable[[float], tuple[int, int] | str],
        deliver: Callable[[Drawing], Report],  # what the loader gives, drawn beside the training
        watch: Callable[[str], Watch | None],  # what looks on in a mode that is not timed
        device: Callable[[], torch.device],  # that trains
        rate: Callable[[], float],  # of learning
    ) -> None:
        self._conversation = conversation
        self._clock = clock
        self._see = see
        self._feed = feed
        self._drain = drain
        self._deliver = deliver
        self._watch_for = watch
        self._watch: Watch | None = None
        self._device = device
        self._edges = Edges(device)
        self._leading_in = False  # the step that is under way is not timed
        self._started = self._first_step = time.perf_counter()
        self._mark = self._started  # the last step's end, or where the open window began
        self.away = False  # at something that is not training
        self._left_at = 0.0
        self._losses = Losses(rate)
        self._processor = Processor(torch.get_num_threads)
        self._away = 0.0  # seconds of validation within the current step
        self._was_away = False  # and in the step before
        self.strays = Strays()
        self.wants_loss = True
        self.steps = self.samples = self.pending_samples = 0
        self._begin(None)

    def _begin(self, command: RunWindow | None, *, led: bool = False) -> None:
        self._open = OpenWindow(command=command, samples=self.samples, led=led)

    @property
    def is_left_out(self) -> bool:
        return self.away and not self._was_away

    def leave_training(self, since: float | None = None) -> None:
        """The program has begun something that is not training (validation): its step's clock
        stands still.

        `since` is when it began, where that is known only now: what was drawn since was for that.
        """
        if not self.away and self.steps:
            self.away, self._left_at = True, since or time.perf_counter()
            if not self._was_away:
                self._left_at += self._settle()

    def enter_training(self) -> None:
        if self.away:
            self.away = False
            if not self._was_away:
                seconds_until_idle(self._device())
            self._away += time.perf_counter() - self._left_at

    def aside(self, look: Callable[[], Any]) -> Any:
        self._settle()
        began = time.perf_counter()
        found = look()
        self._mark += time.perf_counter() - began
        return found

    def _settle(self) -> float:
        """Wait for what a GPU still has to do, and count it to the last step; the seconds."""
        seconds = seconds_until_idle(self._edges.device)
        if seconds and self._open.add_to_last(seconds):
            self._mark += seconds
        return seconds

    def _time_away(self) -> float:
        """Count the seconds of this step that were not training, and give them.

        What happens between every two steps (rollouts, pseudo-labels) is part of training.
        """
        away, every_step = self._away, self._was_away
        self._was_away, self._away = bool(away), 0.0
        if not away or every_step:
            self._open.gradless_seconds += away
            return 0.0
        return self._open.leave_out(away)

    def add_loss(self, loss: object, weight: float = 1.0) -> None:
        self._losses.add(loss, weight)

    def add_overflows(self, found: Iterable[torch.Tensor]) -> None:
        self._losses.add_overflows(found)

    def step(self) -> None:
        """The leading optimizer has stepped: close a full window, and ask what comes next."""
        if self.away:
            self.enter_training()
        now = time.perf_counter()
        samples, self.pending_samples = self.pending_samples, 0
        self.steps, self.samples = self.steps + 1, self.samples + samples
        if self.wants_loss:
            self._losses.end_step()
        self.wants_loss = self.steps < LOSSES_READ or self.steps % LOSS_EVERY == 0
        seconds, self._mark = now - self._mark, now
        if self._away or self._was_away:
            seconds -= self._time_away()
        strayed, passes = self.strays.step(seconds, samples)
        if strayed:  # a validation that kept gradients
            self._clock.take_back("forward", passes, but=self.strays.usual_calls())
            seconds -= self._open.leave_out(strayed)
        if self._leading_in and not is_capturing():
            self._begin_timing()
            return
        if not self._open.add(seconds) or is_capturing():
            if self._watch is not None:
                self._watch.step()
            return
        if self._open.command is None:
            self._first_step = now
            self._conversation.say(Ready(startup_seconds=now - self._started))
        elif self._watch is None:
            self._conversation.say(self._close())
        else:
            found = self._watch.end()
            self._conversation.say(Watched(window=self._close(), found=found))
        self._obey()

    def leave_out_step(self) -> None:
        self._losses.end_step()

    def pass_over(self) -> None:
        self.pending_samples = 0
        self._losses.clear()

    def end(self, exit_code: int = 0) -> None:
        """The program came to its own end: report what was measured until then."""
        window = self._close() if self._open.command and self._open.step_seconds else None
        spent = os.times()
        children = spent.children_user + spent.children_system
        self._conversation.say(
            Ended(steps=self.steps, window=window, exit_code=exit_code, children_seconds=children)
        )

    def end_loop(self) -> None:
        """The program has gone on to another training loop: figures of the two cannot be mixed, and
        the window that is open has some of both.
        """
        seconds = time.perf_counter() - self._first_step
        self._conversation.say(Ended(steps=self.steps, window=None, loop_seconds=seconds))
        raise Halted

    def _close(self) -> Window:
        waited = 0.0 if self.away else self._settle()  # at the program's end it may be
        window = self._open
        step_seconds = self._edges.end(window.step_seconds, waited)
        phases = self._clock.drain()
        return Window(
            mode=window.mode,
            steps=len(step_seconds),
            samples=self.samples - window.samples,
            seconds=sum(step_seconds),
            validation_seconds=window.validation_seconds,
            validations=window.validations,
            step_seconds=step_seconds,
            phases=phases,
            forwards=self.strays.take(),
            gradless_seconds=window.gradless_seconds,
            peak_bytes=peak_bytes(self._edges.device),
            allocator=allocator(self._edges.device),
            **self._losses.take(),
            **self._processor.spent(),
        )

    def _obey(self) -> None:
        """Do what the controller asks until it asks for steps."""
        while True:
            command = self._conversation.ask()
            if isinstance(command, Halt):
                raise Halted
            if isinstance(command, Tell):
                self._conversation.say(self._see())
            elif isinstance(command, Drawing):
                self._conversation.say(self._deliver(command))
            elif command.mode == DRAIN:
                self._conversation.say(self._drained(command))
            elif reason := self._feed(command.mode) or self._look_on(command.mode):
                self._conversation.say(Unsupported(reason=reason))
            else:
                break
        self._begin(command)
        begin_peak(self._device())
        self._leading_in = self._edges.leads_in() and command.mode != REHEARSE and not self._watch
        self._clock.drain()
        self._processor.spent()
        self._mark = time.perf_counter()

    def _begin_timing(self) -> None:
        """The step that led in has ended: count from here on, wherever the device is."""
        self._leading_in = False
        self._begin(self._open.command, led=True)
        self._processor.spent()
        self._clock.pass_over()
        self._edges.begin()
        self._mark = time.perf_counter()

    def _look_on(self, mode: str) -> str:
        """Begin to look on in a mode that is not timed; a reason why that is impossible, or ""."""
        try:
            self._watch = self._watch_for(mode)
            if self._watch is not None:
                self._clock.drain()
                self._watch.begin()
        except (RuntimeError, AssertionError) as error:  # torch asserts that it has CUDA
            self._watch = None
            return str(error).partition("\n")[0] or type(error).__name__
        return ""

    def _drained(self, command: RunWindow) -> Window | Unsupported:
        self._processor.spent()
        began = time.perf_counter()
        drawn = self._drain(command.seconds)
        if isinstance(drawn, str):
            return Unsupported(reason=drawn)
        seconds, spent = time.perf_counter() - began, self._processor.spent()
        steps, samples = drawn
        return Window(mode=DRAIN, steps=steps, samples=samples, seconds=seconds, **spent)
