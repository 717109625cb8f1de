"""Where one program's runs are started from: a warm process to fork them, a sandbox to protect the
user's files.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.knobs.knob import Config
from autotune.measurement.filling import Filled, fill
from autotune.measurement.first_epoch import FirstEpoch, fill_memory
from autotune.measurement.measurement import Failure
from autotune.measurement.processes.forks import Zygote
from autotune.measurement.processes.jobs import Job
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.measurement.sandbox import (
    Layer,
    Sandbox,
    directories_in_texts,
    environment,
    other_directories,
    protected_directories,
    quiet_environment,
)
from autotune.workload.program.target import Target
from autotune.workload.seen import LoaderKey
from autotune.workload.window import Window

# A program may load its data for minutes before its first step; what it took once, times this, is
# its limit after that.
FIRST_START_LIMIT_SECONDS = 600.0
LATER_STARTS_TAKE_AT_MOST = 5.0
LIMIT_FLOOR_SECONDS = 30.0
COMPILING_LIMIT_SECONDS = 300.0
# Other settings may take so many times as long for a first epoch.
FIRST_EPOCH_TAKES_AT_MOST = 3.0
# And between two steps, of which a window waits for two.
GAP_TAKES_AT_MOST = 1.5


class Workbench:
    """Starts runs of `target`; a context manager, at whose end all of them and all that they wrote
    are gone. The random streams of all start from `seed`, so that they can be compared batch by
    batch; the first may take `first_start_limit_seconds` to its first step.
    """

    def __init__(
        self,
        target: Target,
        *,
        seed: int = 0,
        first_start_limit_seconds: float = FIRST_START_LIMIT_SECONDS,
        hides_gpus: bool = False,
    ) -> None:
        self._target = target
        self._seed = seed
        self._first_start_limit_seconds = first_start_limit_seconds
        program = Path(target.path or Path(target.directory) / "training")
        self._sandbox = Sandbox(
            protected_directories(program, target.arguments, [Path(target.directory)]),
            named=directories_in_texts(program, target.arguments),
            elsewhere=other_directories(),
        )
        scratch = self._sandbox.scratch
        try:
            hidden = {"CUDA_VISIBLE_DEVICES": ""} if hides_gpus else {}
            self._zygote = Zygote({**environment(scratch), **quiet_environment(scratch), **hidden})
        except BaseException:
            self._sandbox.close()
            raise
        self._layers: dict[int, Layer] = {}
        self._longest_start_seconds: float | None = None
        self._prepared_untried = False
        self._before_training: frozenset[str] | None = None
        self.training_loader: LoaderKey | None = None
        self.first_epoch: FirstEpoch | None = None  # that later runs go through before they count
        self.compiling_seconds: float | None = None  # of the start that was observed first
        self.longest_gap_seconds = 0.0  # between two steps of that run
        self.passed_loops = 0  # training loops before the one that is measured
        self.time_first: tuple[str, ...] = ()  # as Seen has it

    def __enter__(self) -> "Workbench":
        return self

    def __exit__(self, *_: object) -> None:
        with _undisturbed():
            self._zygote.close()
            self._sandbox.close()

    @property
    def protection(self) -> str:
        """How the user's files are protected, in a sentence."""
        return self._sandbox.description

    def warm_up(self) -> None:
        """Wait until runs can be started at once."""
        self._zygote.warm_up()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(*arguments)` in a fresh process, with torch at hand."""
        return self._zygote.call(function, *arguments)

    def start(
        self,
        config: Config | None = None,
        *,
        sources: Mapping[str, str] | None = None,
        injected: bool = False,
        nudge: float = 0.0,
        stream: int = 0,
        reorder: bool = False,
        reseed: int = 0,
        alike: bool = False,
        epoch_batches: int = 0,
        littered: bool = False,
        compiles: bool = False,
        compiles_until: float = math.inf,
        phases: bool = False,
        marked: bool = False,
    ) -> ProcessRun:
        """Start a run set up by `config`, with the text of `sources` (by path) in place of its
        files' own.

        What else it is to do otherwise is as `Job` and `Setup` have it. With `compiles`, `sources`
        use torch.compile, as `config` may; beyond `compiles_until`, of `time.monotonic()`,
        compiling gets no time of its own. Where it is `marked`, windows say which blocks of
        `sources` were not come to.
        """
        job = Job(
            program=self._target.program(dict(sources or {}), marked=marked),
            config=dict(config or {}),
            training_loader=self.training_loader if config else None,
            passed_loops=self.passed_loops,
            time_first=self.time_first,
            seed=self._seed,
            objects=self._target.objects,
            injected=injected,
            nudge=nudge,
            stream=stream,
            reorder=reorder,
            reseed=reseed,
            alike=alike,
            epoch_batches=epoch_batches,
            littered=littered,
            compiles=compiles or (config or {}).get("compile", "off") != "off",
            phases=phases,
        )
        run = self._fork(job, self._sandbox.layer(), compiles_until)
        return self._try_prepared(run, job) if self._prepared_untried else run

    def _fork(self, job: Job, layer: Layer, compiles_until: float = math.inf) -> ProcessRun:
        self._discard_old()
        limit, left = self._limit_seconds(), compiles_until - time.monotonic()
        compiling = limit + COMPILING_LIMIT_SECONDS
        run = self._zygote.start(
            replace(job, layer=layer),
            limit_seconds=max(limit, min(compiling, left)) if job.compiles else limit,
        )
        allowed = GAP_TAKES_AT_MOST * self.longest_gap_seconds
        run.step_limit_seconds = max(run.step_limit_seconds, allowed)
        if job.compiles:
            over = " when its time was over" if left < compiling else ""
            run.slow_because = f"torch.compile was most likely still at work{over}"
        if self.first_epoch is not None:
            run.first_steps = self.first_epoch.steps
            run.first_seconds = FIRST_EPOCH_TAKES_AT_MOST * self.first_epoch.seconds
        self._layers[run.pid] = layer
        return run

    def _try_prepared(self, run: ProcessRun, job: Job) -> ProcessRun:
        """`run`, the first above what the program has prepared; another without that where it
        crashes.

        A program that insists on making its directory or its log file cannot start where it has
        made them before. Where it crashes all the same, its settings are to blame.
        """
        self._prepared_untried = False
        failure = _failure_at_start(run)
        if failure is None or failure.kind != "crashed":
            return run
        again = self._fork(job, replace(self._sandbox.layer(), prepared=None))
        if _failure_at_start(again) is not None:
            return run
        self._sandbox.forget_prepared()
        return again

    def observe(self, waited: Callable[[float], None] | None = None) -> ProcessRun:
        """Start the first run, and keep what the program prepares before its first step for all
        later ones; `waited` is told for how many seconds that step has been waited for.
        """
        run = self.start(phases=True)
        run.await_first_step(waited)
        if self.compiling_seconds is None:
            self.compiling_seconds = min(run.startup_seconds, run.seen().compiling_seconds)
        run.limit(self._first_start_limit_seconds / 2)  # a step need not import anything
        if self._longest_start_seconds is None:
            layer = self._layers[run.pid]
            self._prepared_untried = self._sandbox.keep_prepared(layer)
            self._before_training = self._sandbox.written(layer)
        else:
            self._before_training = None  # it begins with what was kept
        self._longest_start_seconds = run.startup_seconds
        return run

    def fill(
        self,
        run: ProcessRun,
        windows: list[Window],
        *,
        limit_seconds: float,
        told: Callable[[], None],
    ) -> Filled | None:
        """Let the observed run go on until it has filled its cache of files, and keep that for all
        later runs; see `filling.fill`.
        """
        layer, before = self._layers[run.pid], self._before_training
        if before is None:
            return None
        filled = fill(
            run,
            windows,
            made=lambda: self._sandbox.written(layer) - before,
            limit_seconds=limit_seconds,
            told=told,
        )
        if filled is None or not filled.full:
            return filled
        return replace(filled, full=self._sandbox.keep_more(layer, filled.files))

    def remember(self, *arguments: Any, **named: Any) -> FirstEpoch | None:
        """Let the observed run go on until its dataset has filled its cache in memory, as all later
        runs will before they count; see `first_epoch.fill_memory`.
        """
        self.first_epoch = fill_memory(*arguments, **named)
        return self.first_epoch

    def _limit_seconds(self) -> float:
        if self._longest_start_seconds is None:
            return self._first_start_limit_seconds
        return max(LIMIT_FLOOR_SECONDS, LATER_STARTS_TAKE_AT_MOST * self._longest_start_seconds)

    def _discard_old(self) -> None:
        """Throw away what runs that have ended wrote, so that a long search does not fill the
        disk.
        """
        for pid in [pid for pid in self._layers if self._zygote.exit_status(pid) is not None]:
            self._sandbox.discard(self._layers.pop(pid))


def _failure_at_start(run: ProcessRun) -> Failure | None:
    """Why `run` does not get to its first step; None where it does."""
    try:
        run.await_first_step()
    except RunEnded as end:
        return end.failure
    return None


@contextmanager
def _undisturbed() -> Iterator[None]:
    """What is done inside is done whole, however often Ctrl-C is pressed.

    Only the main thread is told of signals, and only it may say what to do about them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
