"""The same loop with one cost taken away at a time: what each is worth, on any device."""

import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from autotune.measurement.ablated import Ablation
from autotune.measurement.benchmark import (
    ATTEMPTS_ON_A_BUSY_MACHINE,
    WARM_LIMIT_SECONDS,
    pass_first_epoch,
    warm_up,
)
from autotune.measurement.beside import one_blas_thread, one_thread, with_cost, without_anomaly
from autotune.measurement.doubts import starved
from autotune.measurement.filling import EPOCHS_THAT_FILL, Filled
from autotune.measurement.first_epoch import STILL_KEPT, FirstEpoch, grown
from autotune.measurement.measurement import Failure
from autotune.measurement.modes import take_windows
from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.measurement.readings.bursts import fetched_ahead
from autotune.measurement.readings.memory import beside_bytes, most
from autotune.measurement.readings.telemetry import Sampled, sampled, trains_on_gpu
from autotune.measurement.untimed.largest import largest_batch
from autotune.measurement.untimed.looks import busy_lines, computed_again, denormals, operations
from autotune.profiling.profile import LargestBatch
from autotune.workload.conversation import Draw
from autotune.workload.window import AS_IS, DRAIN, REPLAY_DEVICE, REPLAY_HOST, Window

# The share of the time that each mode gets; as it is gets most, for it is what all else is held to.
SHARES = {AS_IS: 0.45, REPLAY_DEVICE: 0.3, REPLAY_HOST: 0.1, DRAIN: 0.15}
# Of the time that the modes get: looking at the program's lines, timing one thing beside the
# program as it is, and going over its batches.
LINES_SHARE, BESIDE_SHARE, LARGEST_SHARE = 0.1, 0.15, 0.2
# Programs that end before all modes have been timed are started again so many times.
STARTS = 4

_NO_DEVICE = "there is no device to copy to: the host computes"

Kept = Callable[[], Mapping[str, int]]
Fill = Callable[[ProcessRun, list[Window]], Filled | None]
Remember = Callable[[ProcessRun, list[Window], Mapping[str, int], Kept], FirstEpoch | None]


def ablate(
    start: Callable[[], ProcessRun],
    *,
    seconds: float,
    cores: int,
    warm_seconds: float = WARM_LIMIT_SECONDS,
    deadline: float = math.inf,
    only_loop: bool = True,
    fill: Fill | None = None,
    remember: Remember | None = None,
    memory_limited: bool = False,
) -> Ablation:
    """Time a program in each mode for `seconds` in all after its warm-up, as it is for the larger
    part. It is started again where it ended before that, and a mode timed again in which it did not
    get its `cores`, up to the `deadline`, of `time.monotonic()`. `only_loop` makes do with a
    training loop that another one follows; its memory is `memory_limited` on a GPU in any case.
    `fill` is given the first run once it is warm, and its windows so far, to let it go on until its
    first epoch has left what later ones read; `remember` does so for what its dataset keeps in
    memory, and is given what it kept before these windows as well, and what says what it keeps.

    Raises:
        RunEnded: the program ended or failed before it was timed once as it is, or another training
            loop has followed.
    """
    ablation, mode = None, AS_IS
    for _ in range(STARTS):
        run = start()
        try:
            if ablation is None:
                ablation = _begin(run, warm_seconds, fill, remember)
                if ablation.ended:
                    continue
            else:
                pass_first_epoch(run, [])
            for mode in _modes(ablation):
                if mode not in ablation.windows and mode not in ablation.reasons:
                    _time_mode(ablation, run, mode, SHARES[mode] * seconds, cores, deadline)
            look_closer(ablation, run, seconds, cores, memory_limited)
            break
        except RunEnded as end:
            if ablation is None or not _goes_on(ablation, end, only_loop=only_loop):
                raise
            _note_end(ablation, end, mode)
        finally:
            run.kill()
    assert ablation is not None
    if AS_IS not in ablation.windows:
        raise RunEnded(Failure(kind="ended", reason="the program ended before it could be timed"))
    if REPLAY_HOST not in _modes(ablation):
        ablation.reasons[REPLAY_HOST] = _NO_DEVICE
    return ablation


def _modes(ablation: Ablation) -> tuple[str, ...]:
    """In which a program is timed: one on the host has nothing to copy."""
    return tuple(mode for mode in SHARES if mode != REPLAY_HOST or ablation.seen.device != "cpu")


def _begin(
    run: ProcessRun,
    warm_seconds: float,
    fill: Fill | None = None,
    remember: Remember | None = None,
) -> Ablation:
    """Warm the first run up. What a program that ends meanwhile gave is its time as it is."""
    run.await_first_step()
    ablation = Ablation(seen=run.seen(), warm=[], startup_seconds=run.startup_seconds)
    ablation.beside.append(beside_bytes(run.pid, ablation.seen))
    ahead, before = fetched_ahead(ablation.seen), _remembered(ablation, run)
    try:
        warm_up(run, ablation.warm, drain_batches=ahead, limit_seconds=warm_seconds)
        ablation.filled = fill(run, ablation.warm) if fill else None
        if remember and before:
            kept = functools.partial(_remembered, ablation, run)
            warm = sum(window.samples for window in ablation.warm)
            ablation.caches = grown(before, kept(), warm)
            ablation.first_epoch = remember(run, ablation.warm, before, kept)
        ablation.seen = run.seen()
    except RunEnded as end:
        given = [*ablation.warm, *([end.window] if end.window is not None else [])]
        if not given or end.failure.kind != "ended":
            raise
        ablation.windows[AS_IS], ablation.warm = given, []
        ablation.ended = True
    return ablation


def _time_mode(
    ablation: Ablation, run: ProcessRun, mode: str, seconds: float, cores: int, deadline: float
) -> None:
    """Time a mode; denormal numbers are looked for before the program's own way and after it."""

    def look() -> None:
        if mode == AS_IS:
            known = ablation.windows.get(AS_IS, ablation.warm)
            ablation.denormals = denormals(run, ablation.seen, known)

    look()
    _time_undisturbed(ablation, run, mode, seconds, cores, deadline)
    look()


def _time_undisturbed(
    ablation: Ablation, run: ProcessRun, mode: str, seconds: float, cores: int, deadline: float
) -> None:
    """Time a mode, again where other work took the processors in most of its windows."""
    for _ in range(ATTEMPTS_ON_A_BUSY_MACHINE):
        if mode == AS_IS:
            device, before = Sampled(), _remembered(ablation, run)
            try:
                with sampled(ablation.seen, run.pid) as device:
                    _time(ablation, run, mode, seconds)
            finally:
                ablation.telemetry = device.telemetry
            _count_epochs(ablation, run)
            ablation.beside.append(beside_bytes(run.pid, ablation.seen))
            samples = sum(window.samples for window in ablation.windows[AS_IS])
            ablation.kept = _still_kept(ablation, before, _remembered(ablation, run), samples)
        else:
            _time(ablation, run, mode, seconds)
        windows = ablation.windows.get(mode, [])
        fair = 2 * sum(starved(window, cores=cores) for window in windows) <= len(windows)
        if fair or time.monotonic() + seconds > deadline:
            return


def _count_epochs(ablation: Ablation, run: ProcessRun) -> None:
    """Epochs that were begun while it was timed, and whether its dataset was changed for one."""
    before, now = ablation.seen.loader, run.seen().loader
    if before is not None and now is not None:
        changing = before.changing or now.changing
        loader = replace(before, epochs=now.epochs, changing=changing)
        ablation.seen = replace(ablation.seen, loader=loader)


def _still_kept(
    ablation: Ablation, before: Mapping[str, int], after: Mapping[str, int], samples: int
) -> tuple[str, ...]:
    """What its dataset kept more of in what was timed; of a cache that was not full, any more."""
    partly = ablation.caches if ablation.first_epoch is None else ()
    some = grown(before, after, samples, per_sample=STILL_KEPT)
    whole = grown(before, after, samples)
    return tuple(name for name in some if name in whole or name in partly)


def _remembered(ablation: Ablation, run: ProcessRun) -> Mapping[str, int]:
    """How much the dataset keeps in memory; nothing where workers have copies of it, and where it
    would have all by now.
    """
    loader = ablation.seen.loader
    if loader is None or loader.num_workers or loader.epochs > EPOCHS_THAT_FILL:
        return {}
    try:
        return run.draw(Draw(batches=0, seconds=0.0, only_lengths=True)).remembered
    except NotPossible:
        return {}


def _time(ablation: Ablation, run: ProcessRun, mode: str, seconds: float) -> None:
    """Windows of `mode` for `seconds`.

    Raises:
        RunEnded: the program ended or failed; its windows until then are kept.
    """
    windows: list[Window] = []
    try:
        take_windows(run, mode, seconds, seen=ablation.seen, into=windows)
    except NotPossible as why:
        ablation.reasons[mode] = str(why)
    except RunEnded as end:
        windows += [end.window] if end.window is not None and end.window.mode == mode else []
        raise
    finally:
        if windows:
            ablation.windows[mode] = windows


def _goes_on(ablation: Ablation, end: RunEnded, *, only_loop: bool) -> bool:
    """Whether another start may give what is still missing."""
    followed = end.loop_seconds is not None and not only_loop
    return not followed and (AS_IS in ablation.windows or end.failure.kind == "ended")


def _note_end(ablation: Ablation, end: RunEnded, mode: str) -> None:
    """Remember how the run ended: a program that fails in one mode is not run in it again."""
    ablation.ended = ablation.ended or end.failure.kind == "ended"
    if end.failure.kind == "hung" and mode == AS_IS:
        ablation.stopped = end.failure.reason
    if end.failure.kind != "ended" and mode not in ablation.windows:
        ablation.reasons[mode] = end.failure.reason


def look_closer(
    ablation: Ablation, run: ProcessRun, seconds: float, cores: int, memory_limited: bool
) -> None:
    """Take down in `ablation` what its windows do not say, in `seconds` and some more, on so many
    `cores`; `memory_limited` says that it is not to take more than so much.
    """
    windows = ablation.windows[AS_IS]
    timed = len(windows)
    now = run.seen()  # what was there at the first window is not the whole of it
    ablation.seen = replace(
        ablation.seen,
        process_beside=now.process_beside,
        taking_turns=now.taking_turns,
        passes=now.passes,
    )
    ablation.lines = busy_lines(run, ablation.seen, windows, seconds=LINES_SHARE * seconds)
    asked = run, ablation.seen, ablation.windows, BESIDE_SHARE * seconds, cores
    ablation.one_thread = one_thread(*asked)
    ablation.one_blas_thread = one_blas_thread(*asked)
    ablation.without_anomaly = without_anomaly(*asked)
    ablation.largest = _largest(ablation, run, LARGEST_SHARE * seconds, memory_limited)
    ablation.operations = operations(run, ablation.seen, windows)
    ablation.denormals = with_cost(
        ablation.denormals, run, ablation.windows, seconds=BESIDE_SHARE * seconds, cores=cores
    )
    ablation.again = computed_again(run, ablation.seen, windows)  # the last: of other weights
    if not trains_on_gpu(ablation.seen):  # a process's peak has in it what these looks took
        windows[timed:] = [replace(each, peak_bytes=None) for each in windows[timed:]]


def _largest(
    ablation: Ablation, run: ProcessRun, seconds: float, limited: bool
) -> LargestBatch | None:
    """Of a run that goes on; one that ends so early has had most of its batches timed."""
    if not (limited or trains_on_gpu(ablation.seen)):
        return None
    return largest_batch(
        run,
        ablation.seen,
        seconds=seconds,
        last=ablation.windows[AS_IS][-1],
        beside_bytes=most(ablation.beside),
    )
