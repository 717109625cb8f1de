"""The same loop with one cost taken away at a time: what each of them is worth, on any device."""

import time
from dataclasses import dataclass, field

from autotune.measurement.benchmark import fetched_ahead, warm_up
from autotune.measurement.measurement import Failure
from autotune.measurement.process import NotPossible, ProcessRun, RunEnded
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, DRAIN, REPLAY_DEVICE, REPLAY_HOST, Window

WINDOWS_PER_MODE = 6


@dataclass(slots=True, kw_only=True)
class Ablation:
    """The windows of each mode, and why a mode has none. `ended` says that the program finished meanwhile."""

    seen: Seen
    warm: list[Window]
    windows: dict[str, list[Window]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    ended: Failure | None = None


def ablate(run: ProcessRun, *, seconds: float, on_device: bool) -> Ablation:
    """Warm `run` up and time it in each mode for `seconds` in all, as it is for the larger part.

    Raises:
        RunEnded: the program ended or failed before it was timed once as it is.
    """
    run.await_first_step()
    first = run.seen()
    warm = warm_up(run, drain_batches=fetched_ahead(first))
    ablation = Ablation(seen=run.seen(), warm=warm)
    _time(ablation, run, AS_IS, 0.45 * seconds)
    if not ablation.windows.get(AS_IS):
        raise RunEnded(ablation.ended or Failure(kind="ended", reason="the program ended before it could be timed"))
    _time(ablation, run, REPLAY_DEVICE, 0.3 * seconds)
    if on_device:
        _time(ablation, run, REPLAY_HOST, 0.1 * seconds)
    else:
        ablation.reasons[REPLAY_HOST] = "there is no device to copy to: the host computes"
    _time(ablation, run, DRAIN, 0.15 * seconds, ahead=fetched_ahead(first))
    return ablation


def _time(ablation: Ablation, run: ProcessRun, mode: str, seconds: float, ahead: int = 0) -> None:
    """Windows of `mode` for `seconds`; with workers, what they hold ready is drawn first and not counted."""
    if ablation.ended is not None:
        ablation.reasons[mode] = ablation.ended.reason
        return
    windows = ablation.windows.setdefault(mode, [])
    try:
        drawn = 0
        while drawn < ahead:
            drawn += run.window(0.05, mode=mode).steps
        if mode == REPLAY_DEVICE:
            run.window(0.0, mode=mode, steps=2)  # the first replays find cold caches
        ends = time.monotonic() + seconds
        while time.monotonic() < ends or not windows:
            windows.append(run.window(seconds / WINDOWS_PER_MODE, mode=mode))
    except NotPossible as why:
        ablation.reasons[mode] = str(why)
    except RunEnded as end:
        if end.failure.kind != "ended":
            ablation.reasons[mode] = end.failure.reason
        if end.window is not None and end.window.mode == mode:
            windows.append(end.window)
        ablation.ended = end.failure
    if not windows:
        ablation.windows.pop(mode, None)
