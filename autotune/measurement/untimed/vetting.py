"""Loader workers held to their promise in runs that are not timed: they must deliver what the
program is given as it is.
"""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from autotune.knobs.knob import Value
from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.measurement.untimed.copies import (
    changed_by_training,
    counted,
    functions_run,
    left_by_reading,
    names_of,
    read_here,
    why_by_turn,
    why_by_what_learns,
    why_read_back,
)
from autotune.measurement.untimed.delivered import (
    NOT_COMPARED,
    Comparison,
    begin_alike,
    compare_in_order,
    more_steps,
)
from autotune.measurement.untimed.shared import (
    likely,
    not_for_workers,
    unshareable,
    why_files_run_out,
)
from autotune.measurement.untimed.streams import compare_streams
from autotune.measurement.untimed.vetted import TOO_LITTLE_TIME, Start, Vetted
from autotune.profiling.profile import Doubt
from autotune.source.edits import Place
from autotune.source.refusals.settings import Setting
from autotune.workload.conversation import Draw
from autotune.workload.program.target import Target
from autotune.workload.samples.delivery import INITIAL_SEED, Delivery
from autotune.workload.seen import SeenLoader

# Workers that read over each other, or do not share their samples out, show it at four.
WORKERS = 4
MOST_BATCHES, MOST_STREAMED_BATCHES = 64, 4096
# A run in which workers do not get to the first step in this time, or in so many times the time
# that the program takes as it is, hangs.
PATIENCE_SECONDS, PATIENCE = 20.0, 5.0
# Whatever the deadline, a run that was begun is waited for so long.
LEAST_SECONDS = 5.0

_OTHER_DATA = "the program would be given other data"
_NOT_ASKED = (
    "whether other workers deliver the same could not be compared: what the program is given as it "
    "is could not be drawn once more"
)
_OTHERS_IN_EACH_RUN = (
    "what they deliver could not be compared: the program as it is was given other data in each of "
    "two runs, as where its random numbers are seeded by the time"
)


def vet_workers(
    start: Start,
    target: Target,
    loader: SeenLoader,
    values: Sequence[Value],
    *,
    seconds: float,
    deadline: float = math.inf,
    counts_steps: bool = False,
) -> Vetted:
    """Which of these numbers of workers deliver what the program is given as it is.

    What four workers do well, any number does; what they do not, a single one may still do. Drawing
    batches takes `seconds` in each run. After the `deadline`, of `time.monotonic()`, nothing more
    is compared, and what was not is refused. Where the program `counts_steps`, its training ends
    after a number of them, however long an epoch is.
    """
    vetting = _Workers(start, target, loader, seconds, deadline, counts_steps)
    kept, reason = {loader.num_workers}, ""
    if why := vetting.observe():
        return Vetted(values=(loader.num_workers,), reason=f"{_NOT_ASKED} ({why})")
    added = {int(value) for value in values if value not in (0, loader.num_workers)}
    if added:
        reason = vetting.refusal(min(max(added), WORKERS))
        if not reason:
            kept |= added
        elif 1 in added and len(added) > 1 and not vetting.refusal(1):
            kept.add(1)
    if 0 in values and 0 not in kept:
        without = vetting.refusal(0)
        kept |= {0} if not without else set()
        reason = reason or without
    return Vetted(
        values=tuple(value for value in values if value in kept),
        reason=reason,
        doubt=vetting.longer if vetting.compared else NOT_COMPARED,
        depends=vetting.depends,
        steady=vetting.steady,
        settings=vetting.settings,
        running=vetting.running,
        streams=vetting.streams,
    )


class _Workers:
    """What the program is given as it is, and the runs that are compared with it."""

    def __init__(
        self,
        start: Start,
        target: Target,
        loader: SeenLoader,
        seconds: float,
        deadline: float,
        counts_steps: bool,
    ) -> None:
        self._start, self._target, self._loader = start, target, loader
        self._seconds, self._deadline, self._counts_steps = seconds, deadline, counts_steps
        self._startup_seconds = 0.0
        self.depends = self._alone = ""
        self.steady = False
        self.settings: tuple[Setting, ...] = ()
        self.running: tuple[Place, ...] = ()
        self.streams: tuple[str, ...] = ()
        self.compared = True
        self.longer: Doubt | None = None

    def observe(self) -> str:
        """See what the program is given as it is; why that cannot be seen, "" where it can."""
        run = self._start({})
        try:
            run.await_first_step()
            own = self._draw(run)
            self._own = replace(own, lasts=None) if self._counts_steps else own
            self._again = self._draw(run, seed=int(self._loader.iterable))
            self._look_at_reading(run)
            self.running = functions_run(run) if self.settings else ()
        except RunEnded as end:
            hurried = end.failure.kind == "hung" and self._patience() < PATIENCE_SECONDS
            more = "; a larger budget has more time for it" if hurried else ""
            return f"{end.failure.reason}{more}"
        except NotPossible as why:
            return str(why)
        finally:
            run.kill()
        self._startup_seconds = run.startup_seconds
        return "" if self._own.batches else "its loader gave no batch"

    def _look_at_reading(self, run: ProcessRun) -> None:
        """See what reading changes of that which batches are made from: whether the program reads
        it back, and whether reading counts by it.
        """
        left, set_by_makers = {*self._own.read, *self._again.read}, set[str]()
        again = left
        with suppress(NotPossible):  # its workers may have what it needs to read
            if self._loader.iterable:  # its batches are drawn with the same random numbers
                looked = [run.draw(Draw(batches=0, seconds=self._seconds, settings=True))]
            else:
                looked = read_here(run, self._seconds)
                # What the first alone sets, as it opens a file, say, stays as it was from then on.
                again = {*self._again.read, *(name for each in looked[1:] for name in each.read)}
                left.update(name for each in looked for name in each.read)
                again = again if len(looked) > 1 else left
                self.depends = why_by_turn(looked[0].goes_on, counted(run, looked, self._seconds))
                set_by_makers.update(looked[0].set_by_makers)
            self.settings = tuple(at for at in looked[0].settings if at.path not in left)
            self.streams = looked[0].streams
            self._alone = why_by_what_learns(looked[0].learning)
        self.steady = not again
        left |= set_by_makers  # another value, later
        if self._loader.num_workers:  # with workers as it is, it reads none
            self._alone = ""
        elif left and not self._alone:
            left_there = left_by_reading(run, left, self._seconds)
            self._alone = why_read_back(self._target, left_there)

    def refusal(self, workers: int) -> str:
        """Why `workers` cannot be had: they hang, crash, deliver other data, leave behind in
        copies what the program reads, or there is no time to see; "" otherwise.
        """
        if workers and self._alone:
            return self._alone
        if workers and (why := not_for_workers(self._own, self._again)):
            return f"with {_workers(workers)}, {why}"
        if self.depends:
            going_on = "each worker goes on by itself" if workers else "it goes on in one process"
            return f"with {_workers(workers)}, {self.depends}: {going_on}"
        too_late = f"what comes with {_workers(workers)} could not be compared {TOO_LITTLE_TIME}"
        if time.monotonic() > self._deadline:
            return too_late
        run, patience = self._start({"num_workers": workers}), self._patience()
        run.limit(patience)
        try:
            run.await_first_step()
            given = self._draw(run)
            holdings = given.holdings
            reason = (
                self._difference(run, given, workers)
                or unshareable(given, workers)
                or (changed_by_training(run, given.read) if workers else "")
                or (why_files_run_out(run, self._loader.length) if workers else "")
            )
        except RunEnded as end:
            if end.failure.kind == "hung" and patience < PATIENCE * self._startup_seconds:
                return too_late
            ended = end.failure.kind == "ended"  # it is too short to be drawn from, not broken
            reason, holdings = "" if ended else end.failure.reason, self._own.holdings
        except NotPossible as why:
            reason, holdings = str(why), self._own.holdings
        finally:
            run.kill()
        cause = "" if reason == _OTHERS_IN_EACH_RUN else likely(holdings, workers, reason)
        return reason and f"with {_workers(workers)}, {reason}{cause}"

    def _patience(self) -> float:
        left = max(LEAST_SECONDS, self._deadline - time.monotonic())
        return min(max(PATIENCE_SECONDS, PATIENCE * self._startup_seconds), left)

    def _draw(self, run: ProcessRun, *, seed: int = 0, reseed: bool = False) -> Delivery:
        run.limit(self._patience())
        streamed = self._loader.iterable
        return run.draw(
            Draw(
                batches=MOST_STREAMED_BATCHES if streamed else MOST_BATCHES,
                seconds=self._seconds,
                seed=seed,
                still=not streamed,
                reseed=reseed,
            )
        )

    def _difference(self, run: ProcessRun, given: Delivery, workers: int) -> str:
        if self._loader.iterable:
            patience = self._patience()
            found = compare_streams(
                run, self._own, self._again, given, self._loader, workers, patience
            )
        else:
            found = compare_in_order(self._own, self._again, given)
            if found.difference and self._differs_by_itself():
                return _OTHERS_IN_EACH_RUN
        if workers and not found.difference and self._begins_anew(run, given):
            found = Comparison(difference=self._copied())
        self.compared = self.compared and found.compared
        if found.longer:
            self.longer = more_steps(f"With {_workers(workers)}, {found.longer}.")
        return found.difference and f"{_OTHER_DATA}: {found.difference}"

    def _differs_by_itself(self) -> bool:
        """Whether the program as it is has other data in each run."""
        if time.monotonic() > self._deadline:
            return False
        run = self._start({})
        try:
            run.await_first_step()
            other = self._draw(run)
        except (NotPossible, RunEnded):
            return False
        finally:
            run.kill()
        return bool(compare_in_order(self._own, self._again, other).difference)

    def _begins_anew(self, run: ProcessRun, given: Delivery) -> bool:
        """Whether samples that depend on those read before depend on a worker's copy of that."""
        if self._own.batches == self._again.batches or INITIAL_SEED in self._own.asked:
            return False
        if self._loader.iterable:
            draws = (Draw(batches=1, seconds=self._seconds, seed=seed) for seed in (1, 2))
            first, second = map(run.draw, draws)
        else:
            first, second = given, self._draw(run, reseed=True)
        return begin_alike(self._own, self._again, first, second)

    def _copied(self) -> str:
        what = names_of(self._own.read) or "something, in the dataset or a library"
        return (
            f"each reading changes {what}, and what is read again comes otherwise; every worker "
            "would begin with the same copy of it, in each epoch anew unless it lives on"
        )


def _workers(count: int) -> str:
    return f"{count or 'no'} worker{'' if count == 1 else 's'}"
