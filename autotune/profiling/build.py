"""From the windows of an observed run to its Profile: shares, ceilings, memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.machine import CPU, Machine
from autotune.profiling.ceilings import measured, per_second, rate_of, to_give_back
from autotune.profiling.gpu import Looks, build_gpu
from autotune.profiling.profile import Ceiling, LargestBatch, Memory, Profile
from autotune.profiling.roofline import roofline
from autotune.profiling.telemetry import Telemetry
from autotune.workload.found import INSIDE, BusyLine, Operations
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, DRAIN, PHASES, Allocator, Window

# What the hooks of one step cost the host where it computes itself: 56 us of a step of 0.79 ms, on
# cores of 2.5 GHz (tests/bench/overhead.py; reports/bench/overhead_xeon.json).
HOOK_SECONDS_PER_STEP = 56e-6


def build_profile(
    *,
    machine: Machine,
    seen: Seen,
    windows: Mapping[str, Sequence[Window]],
    reasons: Mapping[str, str],
    interval: tuple[float, float],
    startup_seconds: float,
    probes: Mapping[str, float],
    budget_seconds: float,
    ended_early: bool,
    beside_bytes: int | None = 0,
    largest: LargestBatch | None = None,
) -> Profile:
    """The profile of a run that was timed as it is, and in what other modes it could be: `windows`
    by mode, some for `AS_IS` among them, and `reasons` why a mode has none. `beside_bytes` are what
    processes that it has started needed of main memory, None where that is unknown; for what else
    is given see `Profile`.
    """
    as_is = windows[AS_IS]
    steps, seconds = sum(each.steps for each in as_is), sum(each.seconds for each in as_is)
    ceilings = measured(windows, reasons, rate := rate_of(as_is))
    phases, missing = _shares(as_is, ceilings, seen, on_device=machine.device != CPU)
    validation = sum(window.validation_seconds for window in as_is)
    return Profile(
        machine=machine,
        seen=seen,
        samples_per_second=rate,
        interval=interval,
        step_seconds=seconds / max(steps, 1),
        phases=phases,
        not_measured=missing,
        ceilings=to_give_back(ceilings, phases, as_is, seen, on_device=machine.device != CPU),
        memory=replace(_memory(machine, seen, as_is, beside_bytes), largest=largest),
        data_processor_share=_data_processor_share(windows.get(DRAIN, ())),
        processors_used=per_second(sum(each.cpu_seconds for each in as_is), seconds + validation),
        validation_share=per_second(validation, seconds + validation),
        startup_seconds=startup_seconds,
        overhead_share=_overhead_share(seen, steps, seconds),
        windows=tuple(window for mode in windows for window in windows[mode]),
        ended_early=ended_early,
        probes=dict(probes),
        budget_seconds=budget_seconds,
    )


def with_lines(
    profile: Profile, lines: tuple[BusyLine, ...], operations: Operations | None = None
) -> Profile:
    """`profile` with its busy lines, and the operations that its steps start; on a CPU, what runs
    in methods of its modules beside their forward is forward too, and what is no operation of
    torch's in their forward is code of the program's own. There is no more of either than the phase
    has that it is taken from: the looks may have fallen on what the program does between its
    epochs.
    """
    profile = replace(profile, lines=lines, operations=operations)
    if profile.machine.device != CPU or "other" not in profile.phases:
        return profile
    beside = _moved(profile, "forward", "other", "forward")
    return _moved(beside, INSIDE, "forward", "other")


def _moved(profile: Profile, kind: str, giving: str, taking: str) -> Profile:
    """`profile` with its lines of a `kind` counted as another phase's."""
    seen = sum(line.share for line in profile.lines if line.phase == kind)
    if not seen:
        return profile
    phases = dict(profile.phases)
    moved = min(seen, phases.get(giving, 0.0))
    phases[giving] = phases.get(giving, 0.0) - moved
    phases[taking] = phases.get(taking, 0.0) + moved
    lines = tuple(
        replace(line, phase=taking, share=line.share * moved / seen) if line.phase == kind else line
        for line in profile.lines
    )
    return replace(profile, lines=lines, phases=phases)


def with_gpu(
    profile: Profile, looks: Looks, telemetry: Telemetry | None, warm: Sequence[Window] = ()
) -> Profile:
    """`profile` with what only a GPU's has: by looks in steps that were not timed, and by what the
    device said of itself during the timing, before which there were `warm` windows.
    """
    machine, seen = profile.machine, profile.seen
    as_is = [window for window in profile.windows if window.mode == AS_IS]
    gpu = build_gpu(
        machine=machine,
        seen=seen,
        looks=looks,
        telemetry=telemetry,
        windows=as_is,
        warm=warm,
        data_share=profile.phases.get("data", 0.0),
    )
    ceiling = roofline(seen, gpu, machine, profile.samples_per_second)
    memory = _split(profile.memory, seen, looks)
    known = gpu.allocator or Allocator()
    return replace(
        profile,
        gpu=gpu,
        ceilings=(*profile.ceilings, ceiling),
        memory=replace(
            memory,
            reserved_bytes=known.reserved_peak_bytes,
            allocated_bytes=known.allocated_peak_bytes,
        ),
    )


def _overhead_share(seen: Seen, steps: int, seconds: float) -> float | None:
    """Of a GPU's hooks, which record events that the device passes, nobody has timed a step."""
    if seen.device != CPU:
        return None
    return min(1.0, per_second(HOOK_SECONDS_PER_STEP * steps, seconds))


def _shares(
    windows: Sequence[Window], ceilings: Sequence[Ceiling], seen: Seen, *, on_device: bool
) -> tuple[dict[str, float], dict[str, str]]:
    """Each phase's share of the wall, "other" for the rest, and why a phase has none."""
    seconds = sum(window.seconds for window in windows)
    spent = {phase: sum(window.phases.get(phase, 0.0) for window in windows) for phase in PHASES}
    at_work = {phase for phase in PHASES if any(phase in window.phases for window in windows)}
    shares = {phase: spent[phase] / seconds for phase in PHASES if phase in at_work and seconds}
    shares["other"] = max(0.0, 1.0 - sum(shares.values()))
    unseen = not seen.models or seen.makes_own_gradients  # see the doubts of these names
    if unseen and shares.get("forward", 0.0) < shares["other"]:
        shares["forward"] = shares.get("forward", 0.0) + shares["other"]
        shares["other"], at_work = 0.0, at_work | {"forward"}
    if seen.loader and seen.loader.threaded:
        shares, at_work = _with_waits(shares, ceilings), at_work | {"data"}
    missing = {phase: _WHY_MISSING[phase] for phase in PHASES if phase not in at_work}
    if "copy" in missing and not on_device:
        missing["copy"] = "batches are where they are computed on: there is no device to copy to"
    return shares, missing


def _with_waits(shares: Mapping[str, float], ceilings: Sequence[Ceiling]) -> dict[str, float]:
    """`shares` of a program whose own thread draws its batches: the loop waits for that thread, of
    which no hook knows, and computes more slowly beside it. What goes away where batches cost
    nothing is their doing, of all phases.
    """
    gains = [ceiling.max_gain for ceiling in ceilings if ceiling.name in ("compute", "host")]
    most = max((gain for gain in gains if gain is not None), default=1.0)
    known = shares.get("data", 0.0)
    data = max(known, 1 - 1 / max(most, 1.0))
    waited = min(shares["other"], data - known)  # first of all in no phase
    rest = 1 - known - waited
    left = {**shares, "other": shares["other"] - waited}
    scale = (1 - data) / rest if rest > 0 else 0.0
    return {phase: data if phase == "data" else scale * left[phase] for phase in (*left, "data")}


_WHY_MISSING = {
    "data": "no batch was seen to be drawn from a DataLoader",
    "copy": "no copy of a batch to the device was seen",
    "forward": "no call of a module that trains was timed",
    "backward": "no backward pass was seen",
    "optimizer": "no step of an optimizer of torch's was seen",
}


def _data_processor_share(drained: Sequence[Window]) -> float | None:
    """Processor seconds per wall second of a drained loader; None without one."""
    seconds = sum(window.seconds for window in drained)
    processor = sum(window.cpu_seconds + window.worker_cpu_seconds for window in drained)
    return processor / seconds if seconds else None


def _memory(
    machine: Machine, seen: Seen, windows: Sequence[Window], beside_bytes: int | None
) -> Memory:
    optimizers = [*filter(None, (seen.optimizer,)), *seen.beside]
    trained = sum(each.trained_bytes for each in optimizers)
    parameters = max(trained, sum(model.parameter_bytes for model in seen.models))
    optimizer = sum(each.state_bytes for each in optimizers)
    peak = max(
        (window.peak_bytes for window in windows if window.peak_bytes is not None), default=None
    )
    if peak is not None:
        peak = None if beside_bytes is None else peak + beside_bytes
    gradients, activations = trained or parameters, None
    if (
        machine.device != CPU and peak is not None
    ):  # on a CPU the peak is the whole process's, libraries included
        activations = max(0, peak - parameters - gradients - optimizer)
    return Memory(
        peak_bytes=peak,
        parameter_bytes=parameters,
        gradient_bytes=gradients,
        optimizer_bytes=optimizer,
        activation_bytes=activations,
        capacity_bytes=machine.device_memory_bytes,
    )


def _split(memory: Memory, seen: Seen, looks: Looks) -> Memory:
    """`memory` by what was seen to hold it, where that was looked at."""
    activations, gradients = looks.activation_bytes, looks.gradient_bytes
    memory = replace(memory, blocks=looks.blocks)
    if memory.peak_bytes is None or activations is None or gradients is None:
        return memory
    buffers = sum(model.buffer_bytes for model in seen.models)
    held = memory.parameter_bytes + buffers + memory.optimizer_bytes + gradients + activations
    return replace(
        memory,
        gradient_bytes=gradients,
        activation_bytes=activations,
        workspace_bytes=max(0, memory.peak_bytes - held),
    )
