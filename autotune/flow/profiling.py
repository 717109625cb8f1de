"""The first stage: one run is observed, with the loop's costs taken away one at a time."""

from autotune.errors import MeasurementError, ProgramError
from autotune.flow.context import PROFILE_SECONDS, PROFILE_SHARE, Context
from autotune.measurement.ablation import Ablation, ablate
from autotune.measurement.doubts import doubts_of
from autotune.measurement.measurement import Failure, Measurement
from autotune.measurement.process import RunEnded
from autotune.measurement.statistics import throughput
from autotune.profiling.build import build_profile
from autotune.profiling.probes import bf16_speedup
from autotune.profiling.profile import Profile
from autotune.workload.target import Target
from autotune.workload.window import AS_IS


def profile_program(context: Context) -> tuple[Profile, Measurement]:
    """The profile, and the program as it is as a measurement: the first trial needs no other run.

    Raises:
        ProgramError: the program itself failed.
        MeasurementError: nothing could be measured.
    """
    context.listener.stage("starting the program")
    ablation = _ablate(context)
    context.bench.training_loader = ablation.seen.training_loader()
    _, interval = throughput(ablation.windows[AS_IS])
    profiled = build_profile(
        machine=context.machine,
        seen=ablation.seen,
        windows=ablation.windows,
        reasons=ablation.reasons,
        interval=interval,
        startup_seconds=ablation.startup_seconds,
        probes={"bf16_speedup": context.bench.call(bf16_speedup, context.machine.device)},
        budget_seconds=context.options.budget_seconds,
        ended_early=ablation.ended,
    )
    return profiled, _as_measurement(ablation, profiled, context.machine.cores)


def _ablate(context: Context) -> Ablation:
    try:
        return ablate(
            context.bench.observe,
            seconds=context.seconds(PROFILE_SHARE, PROFILE_SECONDS),
            on_device=context.machine.device != "cpu",
            cores=context.machine.cores,
            warm_seconds=context.warm_seconds,
        )
    except RunEnded as end:
        raise _why_nothing(context.target, end.failure) from None


def _why_nothing(target: Target, failure: Failure) -> MeasurementError | ProgramError:
    name = target.path or "the training"
    if failure.kind in ("crashed", "out_of_memory", "killed"):
        return ProgramError(
            f"{name} failed: {failure.reason}",
            "Mend the program first; what it printed is above.",
            output=failure.output,
        )
    return MeasurementError(
        f"{name}: {failure.reason}",
        "autotune times optimizer steps: let the program train for some seconds, "
        "with more epochs or more data.",
    )


def _as_measurement(ablation: Ablation, profiled: Profile, cores: int) -> Measurement:
    windows = tuple(ablation.windows[AS_IS])
    return Measurement(
        samples_per_second=profiled.samples_per_second,
        interval=profiled.interval,
        windows=windows,
        seen=profiled.seen,
        startup_seconds=ablation.startup_seconds,
        peak_bytes=profiled.memory.peak_bytes,
        losses=tuple(loss for window in (*ablation.warm, *windows) for loss in window.losses),
        doubts=doubts_of(windows, cores=cores),
    )
