"""How a run came to its end, as a Failure in words."""

import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from autotune.measurement.measurement import Failure
from autotune.workload.conversation import Ended

# A warning of Python's, with the line of code that it shows.
_WARNING = re.compile(r"^.*:\d+: \w*Warning: .*\n(?:  .*\n?)?", re.MULTILINE)
# What is added where nothing was seen to train, and the program has started processes.
NOT_WATCHED = "processes that it starts itself (torchrun, torch.multiprocessing) are not watched"
# A process that trains has spent more than this by the time it has imported torch.
_TRAINING_CHILDREN_SECONDS = 1.0
# How long it is looked whether processes compute, and what an idle one uses of that at the most.
_LOOK_SECONDS, _IDLE_SHARE = 0.5, 0.05
# A line that a program printed is quoted up to here.
_QUOTED = 160
# What torch prints before it aborts, and within how many of the last characters.
_DEVICE_ERROR, _LAST_WORDS = "CUDA error: ", 4000


def left_with(code: int) -> str:
    """What is said of a program that exits with a code of its own."""
    return f"it left with exit code {code}"


def _has_children(pid: int) -> bool:
    """Whether the process has started others that still live."""
    with suppress(OSError):
        return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().strip())
    return False


def last_line(output: str) -> str:
    """The last line that is not empty, shortened; "" where there is none. One that is not ended yet
    is the last only where it is the first, too. Warnings, and the code that they show, are none.
    """
    output = _WARNING.sub("", output)
    whole = output[: output.rfind("\n") + 1].strip()
    return (whole or output.strip()).rpartition("\n")[2].rpartition("\r")[2].strip()[:_QUOTED]


def why_late(pid: int, slow_because: str, output: str) -> str:
    """What may keep a run from its first step, and what it printed last: a program that passes over
    its own errors most likely says which.
    """
    because = slow_because or (NOT_WATCHED if _has_children(pid) else "")
    said = last_line(output)
    return "".join(f"; {each}" for each in (because, said and f"it last said: {said}") if each)


def why_stuck(pid: int) -> str:
    """What is known of a run whose next step does not come; "" where it still computes."""
    with suppress(psutil.Error):
        run = psutil.Process(pid)
        started = run.children(recursive=True)
        before = _processor_seconds((run, *started))
        time.sleep(_LOOK_SECONDS)
        if _processor_seconds((run, *started)) - before > _IDLE_SHARE * _LOOK_SECONDS:
            return ""
        if not started:
            return "; it uses no processor any more: it waits for something"
        return (
            "; neither it nor the processes that it has started use a processor any more: one "
            "that is forked where torch has computed already may wait for ever in its "
            "first operation (another start method, `spawn`, or one thread, would not)"
        )
    return ""


def _processor_seconds(processes: Sequence[psutil.Process]) -> float:
    """What these processes have used so far."""
    times = [each.cpu_times() for each in processes]
    return float(sum(each.user + each.system for each in times))


def ending_of(report: Ended, output: str) -> Failure:
    """What the run itself said of its end."""
    steps = f"{report.steps} training step{'s' * (report.steps != 1)}"
    reason = f"the program came to its end after {steps}"
    if not report.steps:
        reason = "the program ended without a training step that was seen"
        if report.children_seconds > _TRAINING_CHILDREN_SECONDS:
            reason += f" in its own process; {NOT_WATCHED}"
    if report.loop_seconds is not None:
        reason = f"another optimizer, of a training of its own, took over after {steps}"
    return Failure(kind="ended", reason=reason, output=output)


def cause_of(status: int, output: str) -> Failure:
    """Of a run that said nothing, by how its process ended and what it had printed."""
    if status == -signal.SIGKILL:
        reason = "the system killed the run, most likely because memory ran out"
        return Failure(kind="killed", reason=reason, output=output)
    if status < 0:
        of_device = _DEVICE_ERROR in output[-_LAST_WORDS:]  # noticed in a thread or a destructor
        reason = f"the run was ended by {signal.Signals(-status).name}"
        return Failure(
            kind="device_error" if of_device else "crashed", reason=reason, output=output
        )
    return Failure(
        kind="crashed" if status else "ended",
        reason=f"the run left with exit code {status} and did not say why",
        output=output,
    )
