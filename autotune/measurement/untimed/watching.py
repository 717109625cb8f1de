"""A run of its own that is looked into and not timed: where the device's time and memory go."""

import math
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.profiling.gpu import Looks, SyncPlace
from autotune.profiling.lost import IncompleteTrace
from autotune.profiling.trace import Trace, parse_trace
from autotune.source.edits import Place
from autotune.workload.found import Counted, Saved
from autotune.workload.window import FLOPS, SAVED, SYNCS, TRACE

# Steps before anything is looked at (cuDNN chooses, the allocator fills its cache), and steps that
# are: enough for a mean, few enough for a trace of some tens of megabytes. Of steps that have
# several backward passes, about so many passes are traced.
WARM_STEPS = 5
STEPS: Mapping[str, int] = {FLOPS: 2, SAVED: 2, SYNCS: 4, TRACE: 8}
# The first steps of a trace: of one, the device has no work yet from a step before.
LEADING = 1
# Steps of a look that go by before what counts: the very first of a trace is not in it.
BEFORE: Mapping[str, int] = {TRACE: 1 + LEADING}
# What is found where a validation came in between is not of steps: how often others are tried.
TRIES = 3
# Programs that end before all has been looked at, or whose trace is not whole, are started again
# so many times; one that had validated in the trace then trains on for at most so many steps until
# it does so again: more than were looked at before.
STARTS = 3
MOST_STEPS_TO_VALIDATION = 40
_NO_KERNEL = "no kernel was seen to run in the traced steps"
_NOT_REACHED = "the program, or the time for it, was over before"
_VALIDATED = "a validation came in between"
_NAMED = 3
_COMPILED = "a compiled model's operations are not counted"


def look(
    start: Callable[[], ProcessRun],
    *,
    compiled: bool,
    backwards_per_step: float,
    deadline: float = math.inf,
) -> Looks:
    """What can be found out of the program beside its speed, without what looks at single
    operations where its model is compiled. It is started again where it ended before all was looked
    at, but not beyond the `deadline`, of `time.monotonic()`.
    """
    traced = max(1, round(STEPS[TRACE] / max(1.0, backwards_per_step)))
    steps = {**STEPS, TRACE: traced}
    modes = [mode for mode in STEPS if not (compiled and mode in (FLOPS, SAVED))]
    found: dict[str, object] = {}
    missing = {mode: _COMPILED for mode in STEPS if mode not in modes}
    put_off: dict[str, str] = {}
    for number in range(STARTS):
        left = [mode for mode in modes if mode not in found and mode not in missing]
        if not left or (number and time.monotonic() > deadline):
            break
        _look_on(start, {mode: steps[mode] for mode in left}, found, missing, put_off)
    for mode in modes:
        if mode not in found:
            missing.setdefault(mode, put_off.get(mode, _NOT_REACHED))
    return _looks(found, missing, steps)


def _look_on(
    start: Callable[[], ProcessRun],
    steps: Mapping[str, int],
    found: dict[str, object],
    missing: dict[str, str],
    put_off: dict[str, str],
) -> None:
    """Start the program once, and look for what is left, in so many steps each; why something
    cannot be found is said, or why it is `put_off` to another start.
    """
    mode = next(iter(steps))
    run = start()
    try:
        run.window(0.0, steps=WARM_STEPS)
        for mode in steps:
            try:
                if mode == TRACE:
                    found[TRACE] = _trace(
                        run, steps[TRACE], validated=put_off.get(TRACE) == _VALIDATED
                    )
                else:
                    found[mode] = _without_validation(run, mode, steps[mode], TRIES)
            except _AnotherStart as why:
                put_off[mode] = str(why)
            except NotPossible as why:
                missing[mode] = str(why)
    except RunEnded as end:
        if end.failure.kind != "ended":
            missing[mode] = end.failure.reason
    finally:
        run.kill()


class _AnotherStart(Exception):
    """What could not be found in a process, since of its traces only the first is to be trusted."""


def _trace(run: ProcessRun, steps: int, *, validated: bool) -> Trace:
    """The trace of so many steps, the first of its process: CUPTI before CUDA 13.1 Update 1 mixes
    up the work of CUDA graphs in those that follow. Where the program has `validated` in as few
    steps as that, they are to begin behind a validation.

    Raises:
        RunEnded: the program ended, crashed, hung or was killed.
        NotPossible: it is not offered here, or no kernel ran.
        _AnotherStart: a validation came in between, or the profiler lost kernels.
    """
    if validated:
        _until_validation(run)
    try:
        packed = _without_validation(run, TRACE, steps, 1)
        assert isinstance(packed, bytes)
        trace = parse_trace(zlib.decompress(packed), steps=steps, leading=LEADING)
    except (_Validated, IncompleteTrace) as why:
        raise _AnotherStart(str(why)) from None
    except ValueError as error:
        raise NotPossible(f"torch's trace cannot be read: {error}") from None
    if trace is None:
        raise NotPossible(_NO_KERNEL)
    return trace


def _until_validation(run: ProcessRun) -> None:
    for _ in range(MOST_STEPS_TO_VALIDATION):
        if run.window(0.0, steps=1).validations:
            break


class _Validated(NotPossible):
    """There are no such steps between two validations."""


def _without_validation(run: ProcessRun, mode: str, steps: int, tries: int) -> object:
    """What is found in steps between which the program does nothing but train.

    Raises:
        RunEnded: the program ended, crashed, hung or was killed.
        NotPossible: it is not offered here.
        _Validated: there are no such steps.
    """
    for _ in range(tries):
        watched = run.watch(mode, steps=BEFORE.get(mode, 0) + steps)
        if not watched.window.validations:
            return watched.found
    raise _Validated(_VALIDATED)


def _looks(found: Mapping[str, object], missing: dict[str, str], steps: Mapping[str, int]) -> Looks:
    looks = Looks()
    if isinstance(trace := found.get(TRACE), Trace):
        looks = replace(looks, trace=trace)
    if SYNCS in found:
        looks = replace(looks, syncs=_sync_places(found[SYNCS], steps[SYNCS]))
    if isinstance(counted := found.get(FLOPS), Counted):
        if why := _not_all(counted):
            missing[FLOPS] = why
        elif counted.flops:
            looks = replace(
                looks,
                flops_per_step=counted.flops / steps[FLOPS],
                convolution_share=counted.convolution_flops / counted.flops,
            )
    if isinstance(saved := found.get(SAVED), Saved):
        looks = replace(
            looks,
            activation_bytes=saved.activation_bytes,
            gradient_bytes=saved.gradient_bytes,
            blocks=saved.blocks,
        )
    return replace(looks, missing=missing)


def _not_all(counted: Counted) -> str:
    """Why what was counted is not what the model takes; "" where it is."""
    if counted.unknown:
        names = ", ".join(counted.unknown[:_NAMED])
        return f"operations of {names} are not counted"
    if counted.recomputed:
        return "the backward pass computes activations again, or gradients of gradients"
    return ""


def _sync_places(found: object, steps: int) -> tuple[SyncPlace, ...]:
    assert isinstance(found, tuple)
    known: tuple[tuple[Place, int], ...] = found
    return tuple(
        SyncPlace(path=place.path, line=place.line, per_step=count / steps)
        for place, count in known
    )
