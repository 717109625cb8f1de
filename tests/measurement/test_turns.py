"""Contestants taking turns, with runs that are made up."""

import math
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotune.measurement.benchmark import WARM_LIMIT_SECONDS
from autotune.measurement.interleaved import rounds
from autotune.measurement.interleaved.rounds import FEWEST_TURNS
from autotune.measurement.interleaved.turns import (
    LOSSES_NEEDED,
    LOSSES_WANTED,
    TURN_SECONDS,
    LossSeconds,
    Turns,
    take_turns,
)
from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.measurement.ratios import FEWEST_TURNS_PER_PROCESS, MOST_TURNS_PER_PROCESS
from autotune.measurement.readings.bursts import LONGEST_TURN_SECONDS, Length, length_of_turns
from autotune.profiling.telemetry import Telemetry
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, Allocator, Window
from tests.builders import seen


@dataclass
class FakeRun:
    """Trains at `rate` samples/s, a step a batch of 10 (counted as `batch`), until `ends_after`
    windows; slower by `scatter` in some of them.
    """

    rate: float = 1000.0
    batch: int = 10
    scatter: float = 0.0
    pid: int = 1
    first_steps: int = 0
    first_seconds: float = 0.0
    workers: int = 0
    reads: int = 64  # of a worker, one after another, for a batch
    windows_per_epoch: int = 10**6
    ends_after: int = 10**6
    ending: Failure = field(default_factory=lambda: Failure(kind="ended", reason="It ended."))
    skips: int = 0  # steps that a GradScaler leaves out of each window
    log: list[str] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)

    def window(self, seconds: float, *, mode: str = AS_IS, steps: int = 1) -> Window:
        self.log.append("window")
        self.asked.append(seconds)
        if len(self.asked) > self.ends_after:
            raise RunEnded(self.ending)
        count = max(steps, math.ceil(seconds * self.rate / 10))
        slowed = self.scatter * (len(self.asked) % 3) if seconds == TURN_SECONDS else 0.0
        spent = count * 10 / self.rate * (1 + slowed)
        return Window(
            mode=mode,
            steps=count,
            samples=self.batch * count,
            seconds=spent,
            skipped_steps=self.skips,
            losses=(1.0,) * count,
        )

    def seen(self) -> Seen:
        self.log.append("seen")
        facts = seen()
        assert facts.loader is not None
        epochs = 1 + len(self.asked) // self.windows_per_epoch
        loader = replace(
            facts.loader, num_workers=self.workers, batch_size=self.reads, epochs=epochs
        )
        return replace(facts, loader=loader, samples_per_step=float(self.reads))

    def pause(self) -> None:
        self.log.append("pause")

    def kill(self) -> None:
        self.log.append("kill")


def taken(
    *runs: FakeRun,
    rounds: int = 1,
    deadline: float = math.inf,
    warm_seconds: float = WARM_LIMIT_SECONDS,
) -> Turns:
    """The turns of `runs`, the first being the baseline."""
    contestants = {
        name: lambda run=run: cast("ProcessRun", run)  # type: ignore[misc]
        for name, run in zip(("baseline", "tuned"), runs, strict=True)
    }
    return take_turns(
        contestants,
        rounds=rounds,
        deadline=deadline,
        warm_seconds=warm_seconds,
        losses=LossSeconds(),
        after_round=lambda _: False,
    )


def test_each_takes_as_many_turns_and_is_paused_and_killed():
    runs = FakeRun(), FakeRun(rate=2000)
    turns = taken(*runs)
    assert {name: len(rounds[0]) for name, rounds in turns.windows.items()} == {
        "baseline": FEWEST_TURNS_PER_PROCESS,
        "tuned": FEWEST_TURNS_PER_PROCESS,
    }
    for run in runs:
        assert run.log[-1] == "kill"
        assert run.log.count("pause") >= 5
    assert min(map(len, turns.losses.values())) >= LOSSES_NEEDED


def test_steps_left_out_after_the_last_loss_compared_are_no_allowance():
    slow, fast = FakeRun(skips=1), FakeRun(rate=10_000, skips=1)
    turns = taken(slow, fast)
    assert len(turns.losses["tuned"]) > 2 * LOSSES_WANTED
    compared = math.ceil(LOSSES_WANTED / (TURN_SECONDS * fast.rate / 10))
    assert len(turns.skipped["tuned"]) <= compared + 1 < len(fast.asked)
    begins = [before for before, _ in turns.skipped["baseline"]]
    assert begins[0] == 0 and begins == sorted(set(begins))


def test_a_turn_in_which_the_device_was_shared_counts_for_no_one(monkeypatch):
    shared, alone = (
        Telemetry(seconds=0.4, readings=4, other_processes=others) for others in (1, 0)
    )
    # A turn of two contestants is two readings: the second turn's first is of a shared device.
    readings = iter([alone, alone, shared, *(alone for _ in range(100))])

    @contextmanager
    def sampled(_seen, _pid):
        yield SimpleNamespace(telemetry=next(readings))

    monkeypatch.setattr("autotune.measurement.interleaved.rounds.sampled", sampled)

    turns = taken(FakeRun(), FakeRun(rate=2000))

    assert turns.disturbed == {(0, 1)}
    fair, left_out = turns.fair(0, cores=2)
    assert left_out == 1
    assert {name: len(each) for name, each in fair.items()} == {
        "baseline": turns.turns - 1,
        "tuned": turns.turns - 1,
    }


def test_a_turn_holds_several_bursts_of_the_workers():
    few, many = FakeRun(rate=100), FakeRun(rate=100, workers=4)
    taken(few, many)
    assert TURN_SECONDS in few.asked
    assert math.isclose(max(many.asked), 3 * 4 * 0.1)


def test_bursts_do_not_make_a_turn_endless():
    slow = FakeRun(rate=10, workers=16)
    taken(FakeRun(), slow)
    assert max(slow.asked) == LONGEST_TURN_SECONDS


@dataclass
class Reading(FakeRun):
    """Its dataset gives a batch in a second, and each of its workers reads one; they are in step.
    What they were reading when it was paused has come by its next window.
    """

    ready: int = 0
    trained: int = 0
    epoch: int = 10**6

    def window(self, seconds: float, *, mode: str = AS_IS, steps: int = 1) -> Window:
        self.log.append("window")
        self.asked.append(seconds)
        if len(self.asked) > self.ends_after:
            raise RunEnded(self.ending)
        count, spent = 0, 0.0
        while count < steps or spent < seconds:
            if not self.ready:
                spent += 1.0
                self.ready = self.workers or 1
            self.ready -= 1
            count += 1
        self.trained += count
        return Window(
            mode=mode, steps=count, samples=10 * count, seconds=spent, losses=(1.0,) * count
        )

    def seen(self) -> Seen:
        facts = super().seen()
        assert facts.loader is not None
        return replace(facts, loader=replace(facts.loader, reads_at_once=True, length=self.epoch))

    def pause(self) -> None:
        if self.log[-1] != "pause":
            self.ready += self.workers
        super().pause()


@pytest.mark.parametrize("workers", [1, 3, 4, 16])
def test_what_workers_read_while_they_were_stopped_is_no_speed(workers: int) -> None:
    turns = taken(Reading(), Reading(workers=workers))
    for name, rate in (("baseline", 10.0), ("tuned", 10.0 * workers)):
        for window in turns.windows[name][0]:
            assert window.samples_per_second == pytest.approx(rate)


def test_the_losses_of_steps_that_were_left_out_are_kept_in_their_place() -> None:
    run = Reading(workers=4)
    turns = taken(Reading(), run)
    timed = sum(window.steps for window in turns.windows["tuned"][0])
    assert len(turns.losses["tuned"]) == run.trained > timed


def test_of_a_program_that_ends_before_its_first_turn_is_timed_all_that_it_ran_is_kept() -> None:
    entered = Reading(workers=4)
    taken(Reading(), entered, deadline=-math.inf)
    entering = entered.log.index("pause")
    run = Reading(workers=4, ends_after=entered.log[:entering].count("window") + 1)
    turns = taken(Reading(), run)
    assert turns.ended == {"tuned"} and not turns.failures
    (whole,) = turns.windows["tuned"][0]
    assert whole.steps == run.trained == len(turns.losses["tuned"])


def length_of(
    step_seconds: float = 0.1, worker_cpu_seconds: float = 0.0, samples: int = 32, **loader: Any
) -> Length:
    """Of the turns of a program that trains on so many samples a step; what differs in its
    loader.
    """
    facts = seen()
    assert facts.loader is not None
    given = {"num_workers": 4, "batch_size": 32, "reads_at_once": True, "length": 1000}
    own = replace(facts.loader, **given | loader)
    recent = Window(
        mode=AS_IS,
        steps=10,
        samples=10 * samples,
        seconds=10 * step_seconds,
        worker_cpu_seconds=10 * worker_cpu_seconds,
    )
    facts = replace(facts, loader=own, samples_per_step=float(samples))
    return length_of_turns(facts, recent, TURN_SECONDS)


@pytest.mark.parametrize(
    ("loader", "free_steps", "steps"),
    [
        ({}, 4, 12),
        ({"reads_at_once": False}, 0, 2),
        ({"reads_at_once": False, "batch_size": 4, "samples": 4}, 4, 12),
        ({"num_workers": 0}, 0, 2),
        ({"num_workers": 0, "threaded": True}, 1, 4),
        ({"length": 5}, 4, 10),
        ({"length": 1}, 4, 12),
        ({"length": None}, 4, 12),
        ({"batch_size": None}, 4, 12),
        ({"batch_size": 8, "num_workers": 6}, 3, 18),
    ],
    ids=[
        *("batches at once", "short reads", "few samples", "no workers", "a thread"),
        *("short epochs", "epochs of a step", "no length", "batches of its own", "several a step"),
    ],
)
def test_a_step_is_left_out_for_each_batch_that_is_read_while_it_is_stopped(
    loader: dict[str, Any], free_steps: int, steps: int
) -> None:
    length = length_of(**loader)
    assert (length.free_steps, length.steps) == (free_steps, steps)
    assert length.alone(3) == Length(seconds=3 * length.seconds)


def test_workers_that_compute_read_nothing_while_they_are_stopped() -> None:
    assert length_of(worker_cpu_seconds=0.4).free_steps == 0
    assert length_of(worker_cpu_seconds=0.2).free_steps == 4
    assert length_of(step_seconds=0.001).free_steps == 0


def test_a_turn_that_one_cannot_finish_is_nobodys():
    turns = taken(FakeRun(), FakeRun(ends_after=5))
    baseline, tuned = (rounds[0] for rounds in turns.windows.values())
    assert len(baseline) == len(tuned) < FEWEST_TURNS_PER_PROCESS
    assert not turns.failures


def test_the_epochs_of_one_that_comes_to_its_end_are_known() -> None:
    tuned = FakeRun(rate=2000, windows_per_epoch=5, ends_after=7)
    turns = taken(FakeRun(), tuned)
    assert turns.ended == {"tuned"}
    assert turns.seen["tuned"].loader is not None
    assert turns.seen["tuned"].loader.epochs == 2


def test_turns_are_taken_before_and_after_the_steps_that_are_run_for_their_losses() -> None:
    run = FakeRun(rate=100)
    taken(FakeRun(rate=100), run)
    turns = run.asked[run.asked.index(TURN_SECONDS) :]
    late = FEWEST_TURNS_PER_PROCESS - FEWEST_TURNS
    run_on = turns[FEWEST_TURNS:-late]
    assert turns[:FEWEST_TURNS] == [TURN_SECONDS] * FEWEST_TURNS
    assert turns[-late:] == [TURN_SECONDS] * late
    assert run_on and not any(run_on)


def test_workers_read_nothing_ahead_between_two_turns() -> None:
    runs = FakeRun(workers=2), FakeRun(workers=2)
    taken(*runs)
    for run in runs:
        told = "".join(each[0] for each in run.log if each != "kill")
        warming, turns = told.split("p", maxsplit=1)
        assert warming.endswith("s") and turns == "wpp" * FEWEST_TURNS_PER_PROCESS + "s"


def test_a_contestant_that_fails_is_named_and_not_started_again():
    failure = Failure(kind="crashed", reason="It crashed.")
    run = FakeRun(ends_after=0, ending=failure)
    turns = taken(FakeRun(), run, rounds=3)
    assert turns.failures == {"tuned": failure}
    assert run.log.count("window") == 2  # beside the other, and alone


def test_turns_of_no_samples_are_none() -> None:
    turns = taken(FakeRun(), FakeRun(batch=0), warm_seconds=0.0)
    assert turns.turns >= FEWEST_TURNS_PER_PROCESS
    fair, left_out = turns.fair(0, cores=2)
    assert set(fair) == {"baseline"} and not left_out


def test_turns_that_scatter_are_more():
    turns = taken(FakeRun(), FakeRun(scatter=0.5))
    assert len(turns.windows["tuned"][0]) == MOST_TURNS_PER_PROCESS
    assert len(turns.windows["baseline"][0]) == MOST_TURNS_PER_PROCESS


def clocked(monkeypatch, *, turn_seconds: float, entering_seconds: float) -> None:
    """A clock that only entering and windows move on."""
    now = [0.0]
    monkeypatch.setattr(rounds.time, "monotonic", lambda: now[0])
    window, enter = FakeRun.window, rounds.Round._enter

    def timed(self, seconds, **more):
        now[0] += turn_seconds / 2 if seconds == TURN_SECONDS else 0.0
        return window(self, seconds, **more)

    def entering(self, name, start):
        now[0] += entering_seconds / 2
        enter(self, name, start)

    monkeypatch.setattr(FakeRun, "window", timed)
    monkeypatch.setattr(rounds.Round, "_enter", entering)


def test_time_for_a_short_second_round_is_left_and_used(monkeypatch):
    # Entering 6 s, and 1 s a turn: 11 s for the shortest round, of 28 s.
    clocked(monkeypatch, turn_seconds=1.0, entering_seconds=6.0)
    found = taken(FakeRun(), FakeRun(scatter=0.5), rounds=4, deadline=28.0)
    assert [len(each) for each in found.windows["tuned"]] == [11, 6]


def test_where_there_is_no_time_for_another_round_the_first_has_it_all(monkeypatch):
    clocked(monkeypatch, turn_seconds=1.0, entering_seconds=6.0)
    found = taken(FakeRun(), FakeRun(scatter=0.5), rounds=4, deadline=18.0)
    assert [len(each) for each in found.windows["tuned"]] == [13]


def test_no_round_is_begun_after_the_deadline():
    turns = taken(FakeRun(), FakeRun(), rounds=6, deadline=-math.inf)
    assert len(turns.windows["baseline"]) == 1
    assert len(turns.windows["baseline"][0]) == 3


class Device:
    """Has room for one process at a time."""

    def __init__(self) -> None:
        self.holder: FakeRun | None = None
        self.starts = 0

    def start(self, rate: float, kind: str) -> "FakeRun":
        self.starts += 1
        failure = Failure(kind=kind, reason="There is no room.")
        if self.holder is not None and "kill" not in self.holder.log:
            return FakeRun(ends_after=0, ending=failure)
        self.holder = FakeRun(rate=rate)
        return self.holder


@pytest.mark.parametrize("kind", ["out_of_memory", "crashed", "device_lost"])
def test_processes_that_do_not_live_side_by_side_take_turns_one_at_a_time(kind: str) -> None:
    device = Device()
    turns = take_turns(
        {
            "baseline": lambda: cast("ProcessRun", device.start(1000.0, kind)),
            "tuned": lambda: cast("ProcessRun", device.start(1500.0, kind)),
        },
        rounds=4,
        deadline=math.inf,
        losses=LossSeconds(),
        after_round=lambda _: False,
    )
    assert not turns.failures
    (baseline,), (tuned,) = turns.windows["baseline"], turns.windows["tuned"]
    assert len(baseline) == len(tuned) == FEWEST_TURNS_PER_PROCESS
    assert device.starts == 2 + 2 * FEWEST_TURNS_PER_PROCESS
    assert tuned[0].samples_per_second / baseline[0].samples_per_second == pytest.approx(1.5)
    assert min(map(len, turns.losses.values())) >= LOSSES_NEEDED
    for name, windows in (("baseline", baseline), ("tuned", tuned)):  # those of the first process
        assert len(turns.losses[name]) < sum(window.steps for window in windows)


@dataclass
class Squeezed(FakeRun):
    """Its allocator has to give its cache back in each window in which it `is_short` of memory."""

    is_short: Callable[[], bool] = lambda: False
    retries: int = 3

    def window(self, seconds: float, *, mode: str = AS_IS, steps: int = 1) -> Window:
        self.retries += self.is_short()
        window = super().window(seconds, mode=mode, steps=steps)
        return replace(window, allocator=Allocator(retries=self.retries))


@pytest.mark.parametrize("one_fills_it", [True, False])
def test_those_that_leave_each_other_too_little_memory_take_turns_one_at_a_time(
    one_fills_it: bool,
) -> None:
    started: list[Squeezed] = []

    def start(rate: float) -> ProcessRun:
        def is_short() -> bool:
            return one_fills_it and sum("kill" not in each.log for each in started) > 1

        started.append(Squeezed(rate=rate, is_short=is_short))
        return cast("ProcessRun", started[-1])

    turns = take_turns(
        {"baseline": lambda: start(1000.0), "tuned": lambda: start(1500.0)},
        rounds=1,
        deadline=math.inf,
        losses=LossSeconds(),
        after_round=lambda _: False,
    )
    assert not turns.failures
    assert len(started) == 2 + one_fills_it * 2 * FEWEST_TURNS_PER_PROCESS
    for (windows,) in turns.windows.values():
        assert len(windows) == FEWEST_TURNS_PER_PROCESS
        assert {window.allocator for window in windows} == {Allocator(retries=3)}


def test_a_third_that_fails_alone_too_costs_the_others_nothing() -> None:
    device, failure = Device(), Failure(kind="crashed", reason="It crashed.")
    broken = FakeRun(ends_after=0, ending=failure)
    turns = take_turns(
        {
            "baseline": lambda: cast("ProcessRun", device.start(1000.0, "out_of_memory")),
            "tuned": lambda: cast("ProcessRun", device.start(1500.0, "out_of_memory")),
            "delivered": lambda: cast("ProcessRun", broken),
        },
        rounds=1,
        deadline=math.inf,
        after_round=lambda _: False,
    )
    assert turns.failures == {"delivered": failure}
    assert [len(turns.windows[name][0]) for name in turns.windows] == [5, 5, 0]
    assert len(turns.fair(0, cores=2)[0]["tuned"]) == 5


def test_where_they_must_live_side_by_side_and_cannot_there_are_no_turns() -> None:
    device = Device()
    turns = take_turns(
        {name: lambda: cast("ProcessRun", device.start(1.0, "crashed")) for name in ("a", "b")},
        rounds=1,
        deadline=math.inf,
        together=True,
        after_round=lambda _: True,
    )
    assert turns.turns == 0 and device.starts == 2


def test_a_round_that_is_forgotten_leaves_nothing() -> None:
    hung = Failure(kind="hung", reason="It hung.")
    turns = Turns(windows={"a": [[], []]}, losses={"a": [1.0]}, failures={"a": hung})
    turns.disturbed |= {(0, 1), (1, 0)}
    turns.forget_round({})
    assert turns.windows == {"a": [[]]} and turns.losses == {"a": [1.0]}
    assert turns.disturbed == {(0, 1)} and not turns.failures


def test_a_failure_in_a_later_round_is_one() -> None:
    failure = Failure(kind="crashed", reason="It crashed.")
    starts = iter([FakeRun(), FakeRun(ends_after=0, ending=failure)])
    turns = take_turns(
        {
            "baseline": lambda: cast("ProcessRun", FakeRun()),
            "tuned": lambda: cast("ProcessRun", next(starts)),
        },
        rounds=2,
        deadline=math.inf,
        after_round=lambda _: False,
    )
    assert turns.failures == {"tuned": failure}
    assert len(turns.windows["tuned"][0]) >= FEWEST_TURNS_PER_PROCESS


def test_a_crash_within_its_turns_is_a_failure_and_not_for_lack_of_room() -> None:
    failure = Failure(kind="crashed", reason="It crashed.")
    run = FakeRun()
    taken_before = taken(FakeRun(), run)
    entering = len(run.asked) - len(taken_before.windows["tuned"][0])
    turns = taken(FakeRun(), FakeRun(ends_after=entering + 1, ending=failure))
    assert turns.failures == {"tuned": failure}


def test_of_a_program_that_ends_while_it_warms_up_all_that_it_ran_is_kept() -> None:
    turns = taken(FakeRun(ends_after=2), FakeRun())
    (whole,) = turns.windows["baseline"][0]
    assert whole.steps == 2 * math.ceil(0.3 * 1000 / 10)
    assert len(turns.losses["baseline"]) == whole.steps
    assert turns.ended == {"baseline"}


@dataclass
class Short(FakeRun):
    """Of 300 steps, the first 60 of which are three times as slow."""

    steps: int = 0

    def window(self, seconds: float, *, mode: str = AS_IS, steps: int = 1) -> Window:
        window = super().window(seconds, mode=mode, steps=steps)
        left = min(window.steps, 300 - self.steps)
        slow = min(left, max(0, 60 - self.steps))
        self.steps += left
        spent = (left + 2 * slow) * 10 / self.rate
        window = replace(window, steps=left, samples=10 * left, seconds=spent, losses=(1.0,) * left)
        if self.steps == 300:
            raise RunEnded(self.ending, window)
        return window


def test_a_program_that_ends_while_it_warms_up_is_held_against_all_that_the_others_run() -> None:
    runs = Short(), Short(workers=200)  # its workers have read more ahead than it has batches
    turns = taken(*runs)
    (first,), (second,) = turns.windows["baseline"][0], turns.windows["tuned"][0]
    assert (first.steps, first.samples) == (second.steps, second.samples) == (300, 3000)
    assert first.seconds == pytest.approx(second.seconds)
    assert len(turns.losses["baseline"]) == len(turns.losses["tuned"]) == 300


def test_a_program_that_ends_in_its_first_turn_is_held_against_all_that_the_others_run() -> None:
    turns = taken(Short(), Short(steps=180))
    (first,), (second,) = turns.windows["baseline"][0], turns.windows["tuned"][0]
    assert (first.steps, second.steps) == (150 + 40, 120)  # warming up, and in its first turn


def test_a_third_that_hangs_while_it_enters_costs_the_others_no_turn() -> None:
    hung = Failure(kind="hung", reason="It hung.")
    broken = FakeRun(ends_after=1, ending=hung)
    turns = take_turns(
        {
            "baseline": lambda: cast("ProcessRun", FakeRun()),
            "tuned": lambda: cast("ProcessRun", FakeRun(rate=1500)),
            "delivered": lambda: cast("ProcessRun", broken),
        },
        rounds=1,
        deadline=math.inf,
        after_round=lambda _: False,
    )
    assert turns.failures == {"delivered": hung}
    assert [len(turns.windows[name][0]) for name in turns.windows] == [5, 5, 0]


def test_where_one_of_two_hangs_while_it_enters_there_is_no_turn() -> None:
    hung = Failure(kind="hung", reason="It hung.")
    turns = taken(FakeRun(), FakeRun(ends_after=1, ending=hung))
    assert turns.failures == {"tuned": hung}
    assert turns.windows == {"baseline": [[]], "tuned": [[]]}


@pytest.mark.parametrize(("tuned", "fair"), [(1, 1), (2, 2)])
def test_a_turn_of_which_others_had_an_eighth_counts_only_among_as_many_threads(
    tuned: int, fair: int
) -> None:
    quiet = replace(FakeRun().window(TURN_SECONDS), cpu_seconds=0.8, others_seconds=0.0, threads=2)
    shared = replace(quiet, cpu_seconds=0.7, delayed_seconds=0.1, others_seconds=0.1)
    own = [quiet, shared]
    beside = [replace(each, threads=tuned, delayed_seconds=0.0) for each in own]
    turns = Turns(windows={"baseline": [own], "tuned": [beside]})
    taken, left_out = turns.fair(0, cores=2)
    assert (len(taken["tuned"]), left_out) == (fair, 2 - fair)
