"""The first stage: one run is observed, with the loop's costs taken away one at a time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.errors import MeasurementError
from autotune.flow.context import (
    FILL_SECONDS,
    FILL_SHARE,
    MEMORY_SECONDS,
    MEMORY_SHARE,
    PROFILE_OF_LARGE,
    PROFILE_SECONDS,
    PROFILE_SHARE,
    Context,
)
from autotune.flow.device import that_trains
from autotune.flow.doubts import doubts_of_program
from autotune.flow.measuring import MOST_NOT_FINITE
from autotune.flow.mending import why_nothing
from autotune.listener import Listener
from autotune.measurement.ablated import Ablation
from autotune.measurement.ablation import ablate
from autotune.measurement.doubts import doubts_of, doubts_of_device, starved
from autotune.measurement.measurement import Measurement
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.measurement.readings.memory import device_peak, most
from autotune.measurement.readings.telemetry import trains_on_gpu
from autotune.measurement.statistics import throughput
from autotune.measurement.untimed.watching import look
from autotune.profiling.build import build_profile, with_gpu, with_lines
from autotune.profiling.gpu import Looks
from autotune.profiling.probes import bf16_speedup, denormal_times
from autotune.profiling.profile import (
    NOT_ALL_FINITE,
    NOT_FINITE,
    PROCESSORS_TAKEN,
    Doubt,
    Profile,
)
from autotune.workload.window import AS_IS, NO_ANOMALY, ONE_BLAS_THREAD, ONE_THREAD, Window

FIRST_SAID_SECONDS = 10.0
# Training loops of a program that are looked at, one after another, while each is soon over.
MOST_LOOPS = 4


def profile_program(context: Context) -> tuple[Profile, Measurement]:
    """The profile, and the program as it is as a measurement: the first trial needs no other run.

    Raises:
        ProgramError: the program itself failed.
        MeasurementError: nothing could be measured.
    """
    context.listener.stage("starting the program")
    ablation = _ablate(context)
    context.bench.training_loader = ablation.seen.training_loader()
    context.bench.time_first = ablation.seen.time_first
    machine, cores = that_trains(context, ablation.seen), context.machine.cores
    idle_gpu = context.machine.device_name if machine.device != context.machine.device else ""
    windows = {mode: _fair(taken, cores) for mode, taken in ablation.windows.items()}
    profiled = build_profile(
        machine=machine,
        seen=ablation.seen,
        windows=windows,
        reasons=ablation.reasons,
        interval=throughput(windows[AS_IS])[1],
        startup_seconds=ablation.startup_seconds,
        probes=_probes(context, ablation),
        budget_seconds=context.options.budget_seconds,
        ended_early=ablation.ended,
        beside_bytes=most(ablation.beside),
        largest=ablation.largest,
    )
    if trains_on_gpu(ablation.seen):
        profiled = with_gpu(profiled, _look(context, ablation), ablation.telemetry, ablation.warm)
    if not profiled.samples_per_second:
        raise MeasurementError(
            "Training steps were timed, but no batch was seen that they train on.",
            "Draw batches from a torch DataLoader in the loop, or call the model in it.",
        )
    baseline = _as_measurement(ablation, profiled, windows[AS_IS])
    doubts = (
        *_doubts(windows, baseline.losses, cores),
        *doubts_of_device(ablation.telemetry),
        *doubts_of_program(context.target, ablation),
    )
    compiling = context.bench.compiling_seconds or 0.0
    profiled = replace(profiled, doubts=doubts, idle_gpu=idle_gpu, compiling_seconds=compiling)
    profiled = with_lines(profiled, ablation.lines, ablation.operations)
    profiled = replace(profiled, denormals=ablation.denormals, again=ablation.again)
    return profiled, replace(baseline, doubts=profiled.doubts)


def _ablate(context: Context) -> Ablation:
    """Of the training loop that is not over at once; of the longest, where all of them are."""
    bench = context.bench
    longest_seconds, longest = 0.0, 0
    try:
        while bench.passed_loops < MOST_LOOPS:
            try:
                ablation = _ablate_loop(context, only=False)
            except RunEnded as end:
                if end.loop_seconds is None and not bench.passed_loops:
                    raise
                if end.loop_seconds is None:
                    break
                if end.loop_seconds > longest_seconds:
                    longest_seconds, longest = end.loop_seconds, bench.passed_loops
                bench.passed_loops += 1
                context.listener.stage(f"{end.failure.reason}: looking at that one")
                continue
            windows = (*ablation.warm, *ablation.windows[AS_IS])
            if not ablation.ended or sum(each.seconds for each in windows) >= longest_seconds:
                return ablation
            break
        bench.passed_loops = longest
        return _ablate_loop(context, only=True)
    except RunEnded as end:
        raise why_nothing(context.target, end.failure) from None


def _ablate_loop(context: Context, *, only: bool) -> Ablation:
    context.bench.first_epoch = context.bench.compiling_seconds = None
    of_large = PROFILE_OF_LARGE * context.options.budget_seconds
    ablation = ablate(
        lambda: _observed(context),
        seconds=max(context.seconds(PROFILE_SHARE, PROFILE_SECONDS), of_large),
        cores=context.machine.cores,
        warm_seconds=context.warm_seconds,
        deadline=context.trials_deadline,
        only_loop=only,
        memory_limited=context.options.memory_limit_bytes is not None,
        fill=lambda run, windows: context.bench.fill(
            run,
            windows,
            limit_seconds=context.seconds(FILL_SHARE, FILL_SECONDS),
            told=lambda: context.listener.stage("waiting until its cache of files is full"),
        ),
        remember=lambda run, windows, before, kept: context.bench.remember(
            run,
            windows,
            before=before,
            kept=kept,
            limit_seconds=context.seconds(MEMORY_SHARE, MEMORY_SECONDS),
            told=lambda: context.listener.stage("waiting until its cache in memory is full"),
        ),
    )
    context.bench.longest_gap_seconds = ablation.longest_gap_seconds
    return ablation


def _observed(context: Context) -> ProcessRun:
    """The program at its first step; what begins then takes longer than its start, mostly."""
    run = context.bench.observe(Waiting(context.listener).told)
    context.listener.stage("profiling its training steps")
    return run


def _probes(context: Context, ablation: Ablation) -> dict[str, float]:
    """What a CPU can do, of a GPU it is known; and what the loop gains without one of its parts."""
    probed = {}
    if ablation.without_anomaly is not None:
        probed[NO_ANOMALY] = ablation.without_anomaly
    if trains_on_gpu(ablation.seen):
        return probed
    probed["bf16_speedup"] = context.bench.call(bf16_speedup)
    probed["denormal_times"] = context.bench.call(denormal_times)
    if ablation.one_thread is not None:
        probed[ONE_THREAD] = ablation.one_thread
    if ablation.one_blas_thread is not None:
        probed[ONE_BLAS_THREAD] = ablation.one_blas_thread
    return probed


def _look(context: Context, ablation: Ablation) -> Looks:
    """What is found out on a GPU in steps that are not timed."""
    context.listener.stage("looking at what the device waits for")
    return look(
        context.bench.start,
        compiled=ablation.seen.is_compiled,
        backwards_per_step=ablation.seen.backwards_per_step,
        deadline=context.trials_deadline,
    )


class Waiting:
    """Says that the program's first step is waited for, ever more seldom."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._next_seconds = FIRST_SAID_SECONDS

    def told(self, seconds: float) -> None:
        """So many seconds have gone by."""
        if seconds >= self._next_seconds:
            what = f"waiting for the program's first training step: {seconds:.0f} s"
            self._listener.stage(what)
            self._next_seconds *= 2


def _fair(windows: Sequence[Window], cores: int) -> Sequence[Window]:
    """Those in which the run had its processors; all of them where it had not in most."""
    fair = [window for window in windows if not starved(window, cores=cores)]
    return fair if 2 * len(fair) > len(windows) else windows


def _doubts(
    windows: Mapping[str, Sequence[Window]], losses: Sequence[float], cores: int
) -> tuple[Doubt, ...]:
    """What speaks against trusting the profile: its ceilings count as much as its speed."""
    found = {doubt.name: doubt for doubt in doubts_of(windows[AS_IS], cores=cores)}
    for taken in windows.values():
        for doubt in doubts_of(taken, cores=cores):
            if doubt.name == PROCESSORS_TAKEN:
                found.setdefault(doubt.name, doubt)
    if not all(map(math.isfinite, losses)):
        doubt = _not_finite(losses)
        found[doubt.name] = doubt
    return tuple(found.values())


def _not_finite(losses: Sequence[float]) -> Doubt:
    """That some are no numbers. A training diverges where they stay so, or most are: weights that
    are no numbers give no others, but a mean over nothing (all labels ignored) harms none.
    """
    wrong = sum(not math.isfinite(loss) for loss in losses)
    name = NOT_FINITE
    if wrong == len(losses):
        advice = (
            "Where it is not so in every run, look for weights that are never given a value "
            "(torch.Tensor(n), torch.empty): they hold what the memory held."
        )
    elif math.isfinite(losses[-1]) and wrong <= MOST_NOT_FINITE * len(losses):
        name, advice = NOT_ALL_FINITE, "Look whether those steps are to count."
    else:
        advice = "Mend the training first: its speed says little as long as losses are no numbers."
    evidence = f"The loss was infinite or not a number in {wrong} of {len(losses)} steps."
    return Doubt(name=name, evidence=evidence, advice=advice)


def _as_measurement(
    ablation: Ablation, profiled: Profile, windows: Sequence[Window]
) -> Measurement:
    return Measurement(
        samples_per_second=profiled.samples_per_second,
        interval=profiled.interval,
        windows=tuple(windows),
        seen=profiled.seen,
        startup_seconds=ablation.startup_seconds,
        peak_bytes=device_peak(windows)
        if trains_on_gpu(profiled.seen)
        else profiled.memory.peak_bytes,
        joules_per_sample=profiled.gpu.joules_per_sample if profiled.gpu else None,
        losses=tuple(
            loss for window in (*ablation.warm, *ablation.windows[AS_IS]) for loss in window.losses
        ),
    )
