"""Reasons not to trust a measurement: a closed list, each with its evidence and what to do about
it.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median

from autotune.measurement.statistics import rate, throughput, timed
from autotune.nvml import SLOWED
from autotune.profiling.profile import (
    PROCESSORS_TAKEN,
    SLOWED_DOWN,
    SPED_UP,
    TOO_FEW_STEPS,
    Doubt,
)
from autotune.profiling.telemetry import Telemetry
from autotune.workload.window import Window

# A window is starved when the run was kept from a quarter of the processor time that it was ready
# to use; with loader workers from a third, as they and the training delay each other. Measured on
# two cores, the share that it was kept from, alone and with a neighbour on one core:
#   two threads, large products   0.00 to 0.01; with neighbour 0.35 to 0.64, speed 0.24 to 0.5
#   two threads, tiny operations  0.00 to 0.01; with neighbour 0.45 to 0.49, speed 0.08 to 0.2
#   two threads held on one core  0.38 to 0.40 (large products, at half the speed)
#   one thread                    0.00; with neighbour 0.00 to 0.01, at full speed
#   threads and loader's workers  0.05 to 0.28; with neighbour 0.3 to 0.6
#   two threads, host takes them  0.2 to 0.25 at three quarters of the speed; 0.6 at a quarter
# Processors used cannot tell by themselves: tiny operations need one, whatever the threads. A
# program that mostly sleeps wants less than one processor; its shares are of the wall, since each
# wake-up is a little late even on a machine of its own (88 reads of 4 ms in 0.43 s: 0.05 s, which
# is 37 % of the little that it used).
STARVED_SHARE = 1 / 4
STARVED_SHARE_WITH_WORKERS = 1 / 3
# Threads as many as cores, which wait for one another after each operation, lose far more than what
# is taken from them (a fifth of two processors took four tenths of the speed); fewer threads lose
# nothing. So where these are timed beside those, less is too much (a quiet machine: 2 % at most).
STARVED_SHARE_OF_ALL_CORES = 1 / 20

# Of one processor: what others and the host took of a quiet machine (0.01 to 0.05).
ALONE_SHARE = 0.1
UNSTABLE_REACH = 0.10  # half of the 95 % interval, as a share of the estimate
CHANGED_TIMES = 1.3  # last third over first third; steady windows scatter by about 5 %
FEWEST_STEPS = 10
BURST_RATIO = 2.0  # mean over median step (gpuprof's p99/p50 > 2 asks the same of single steps)
FEWEST_BURSTS = 10

# What a device is not slowed by when all is well. Its power cap is no sign of trouble: large
# devices reach it whenever they are busy. Nor is the hardware's slowdown, of which heat and brake
# have bits of their own: it "may be also reported during PState or clock change" (nvml.h), as at
# the edges of a turn. At a tenth of the readings it is no blip.
_TROUBLES = frozenset(SLOWED.values()) - {"power cap", "hardware slowdown"}
SLOWED_SHARE = 0.10


# Threads that lie on one core while another is idle keep theirs busy, and it does not get better by
# itself for seconds to minutes.
STACKED_USED, STACKED_IDLE = 0.9, 0.5


def processors(window: Window, *, cores: int) -> tuple[float, float]:
    """Processors that the run used, and those more that it was ready for and was kept from.

    What its threads waited for one another's wake-ups (many readers that sleep, a pool of threads)
    is its own doing: others kept it waiting for no longer than they ran themselves, on any core. So
    is what more threads than there are cores wait for one another.
    """
    if window.seconds <= 0:
        return 0.0, 0.0
    used = (window.cpu_seconds + window.worker_cpu_seconds) / window.seconds
    waited, stolen = window.delayed_seconds / window.seconds, window.stolen_seconds / window.seconds
    if window.others_seconds is not None:
        others = window.others_seconds / window.seconds
        fit = window.threads <= cores
        stacked = fit and used >= STACKED_USED and cores - used - others >= STACKED_IDLE
        waited = waited if stacked else min(waited, cores * others)
    return used, waited + stolen


def starved(window: Window, *, cores: int, beside_fewer: bool = False) -> bool:
    """Whether something else had the processors that the run needed: another program, or the host
    of the virtual machine that this is.

    Threads of the run that wait while the run itself keeps all `cores` busy are its own doing.
    Where the system does not say how long threads were delayed (no schedstat), nor what was stolen,
    no window is called starved. `beside_fewer`: it is held against a run with another number of
    threads.
    """
    used, missed = processors(window, cores=cores)
    wanted = min(float(cores), used + missed)
    share = STARVED_SHARE_WITH_WORKERS if window.worker_cpu_seconds else STARVED_SHARE
    if beside_fewer and window.threads >= cores > 1:
        share = STARVED_SHARE_OF_ALL_CORES
    return wanted - used > share * max(wanted, 1.0)


def doubts_of(windows: Sequence[Window], *, cores: int) -> tuple[Doubt, ...]:
    """What speaks against trusting a run timed in `windows`, oldest first, on `cores` cores.

    The specific cause stands for the symptom: windows that differ because the run sped up, or
    slowed down, are not called unstable too.
    """
    sound = [window for window in windows if not starved(window, cores=cores)]
    found = [_processors_taken(windows, cores)]
    if sound or not windows:
        found += [_too_few_steps(sound), _changed_its_speed(sound), _stepwise(sound)]
    if not any(found):
        found.append(_unstable(sound))
    return tuple(doubt for doubt in found if doubt is not None)


def doubts_of_device(telemetry: Telemetry | None) -> tuple[Doubt, ...]:
    """What speaks against trusting a run by what its GPU said of itself; what it does not say is no
    reason.
    """
    found = []
    if telemetry is not None and telemetry.other_processes:
        count = telemetry.other_processes
        found.append(
            Doubt(
                name="device shared",
                evidence=f"{count} other process{'es' * (count > 1)} computed on the device.",
                advice="Stop what else runs on the device and measure again.",
            )
        )
    causes = (telemetry.slowed or {}) if telemetry is not None else {}
    held = {name: share for name, share in causes.items() if name in _TROUBLES}
    if held and max(held.values()) >= SLOWED_SHARE:
        name, share = max(held.items(), key=lambda each: each[1])
        found.append(
            Doubt(
                name="device slowed",
                evidence=f"In {100 * share:.0f} % of the readings the device kept its clocks down: "
                f"{name}.",
                advice="See to its cooling and power, and measure again: what ran later may have "
                "been slower for no reason of its own.",
            )
        )
    return tuple(found)


def _processors_taken(windows: Sequence[Window], cores: int) -> Doubt | None:
    taken = [window for window in windows if starved(window, cores=cores)]
    if not taken:
        return None
    both = [processors(window, cores=cores) for window in taken]
    used = fmean(used for used, _ in both)
    wanted = fmean(min(float(cores), used + missed) for used, missed in both)
    why, advice = _who_took_them(taken)
    return Doubt(
        name=PROCESSORS_TAKEN,
        evidence=f"In {len(taken)} of {len(windows)} windows it ran on {used:.1f} of the "
        f"{wanted:.1f} processors that it was ready for; {why}.",
        advice=advice,
    )


def _who_took_them(taken: Sequence[Window]) -> tuple[str, str]:
    waited = sum(window.delayed_seconds for window in taken)
    if sum(window.stolen_seconds for window in taken) > waited:
        advice = "Measure again at another hour, or on a machine of its own."
        return "the host of this virtual machine had most of the rest", advice
    others = [window.others_seconds for window in taken]
    if None not in others and 2 * sum(filter(None, others)) < waited:
        why = "most likely its own threads lay on one core while another was idle"
        return why, "Measure again."
    advice = "Stop other programs on this machine and measure again."
    if None in others:
        return "who had the rest, other programs or threads of its own, is not known", advice
    return "other programs had most of the rest", advice


def _too_few_steps(windows: Sequence[Window]) -> Doubt | None:
    steps = sum(window.steps for window in windows)
    if steps >= FEWEST_STEPS:
        return None
    return Doubt(
        name=TOO_FEW_STEPS,
        evidence=f"Only {steps} {'step was' if steps == 1 else 'steps were'} timed.",
        advice="Give it a larger budget, and where the program ended by itself, more epochs.",
    )


def _changed_its_speed(windows: Sequence[Window]) -> Doubt | None:
    third = len(windows) // 3
    if third == 0:
        return None
    parts = windows[:third], windows[-third:]
    first, last = (rate([timed(window) for window in part]) for part in parts)
    early, late = ([window.samples_per_second for window in part] for part in parts)
    apart = math.sqrt(CHANGED_TIMES)  # a single window that was slow is no course
    if first > 0 and last >= CHANGED_TIMES * first and min(late) > apart * max(early):
        return Doubt(
            name=SPED_UP,
            evidence=f"It sped up {last / first:.1f}× while it was timed.",
            advice="Measure again, or with a larger budget.",
        )
    if last > 0 and first >= CHANGED_TIMES * last and min(early) > apart * max(late):
        return Doubt(
            name=SLOWED_DOWN,
            evidence=f"It slowed down {first / last:.1f}× while it was timed, by itself or with "
            "the machine: what comes later may gain otherwise.",
            advice="Give it a larger budget, so that more of its training is timed.",
        )
    return None


def _stepwise(windows: Sequence[Window]) -> Doubt | None:
    steps = [seconds for window in windows for seconds in window.step_seconds]
    if len(steps) < FEWEST_STEPS or median(steps) <= 0:
        return None
    mean, typical = fmean(steps), median(steps)
    long = [seconds for seconds in steps if seconds > mean]
    bursts, share = len(long), sum(long) / sum(steps)
    if mean < BURST_RATIO * typical or bursts >= FEWEST_BURSTS:
        return None
    hold = "holds" if bursts == 1 else "hold"
    of_workers = any(window.worker_cpu_seconds for window in windows)
    more = "more bursts of batches" if of_workers else "more of them"
    return Doubt(
        name="stepwise",
        evidence=f"{bursts} of {len(steps)} steps {hold} {100 * share:.0f} % of the time: half of "
        f"all take {1000 * typical:.1f} ms or less, the mean is {1000 * mean:.1f} ms.",
        advice=f"Give it a larger budget, so that {more} are timed.",
    )


def _unstable(windows: Sequence[Window]) -> Doubt | None:
    estimate, (low, high) = throughput(windows)
    reach = (high - low) / 2 / estimate if estimate else 0.0
    if reach <= UNSTABLE_REACH:
        return None
    rates = [window.samples_per_second for window in windows]
    ran = f"Its windows ran at {_rate(min(rates))} to {_rate(max(rates))} samples/s; "
    alone = _was_alone(windows)
    who = "; other programs used next to nothing meanwhile" if alone else ""
    return Doubt(
        name="unstable",
        evidence=f"{ran if len(rates) > 1 else 'It was one window; '}"
        f"its speed is known to ±{100 * reach:.0f} %{who}.",
        advice="Its steps differ, or the machine's speed does, as beside others on one host: give "
        "it a larger budget."
        if alone
        else "Stop other programs on this machine, or give it a larger budget.",
    )


def _was_alone(windows: Sequence[Window]) -> bool:
    """Whether nobody else, nor the host of a virtual machine, had a notable share of a processor,
    as far as that is known.
    """
    if any(window.others_seconds is None for window in windows):
        return False
    taken = sum((each.others_seconds or 0.0) + each.stolen_seconds for each in windows)
    return taken <= ALONE_SHARE * sum(window.seconds for window in windows)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
