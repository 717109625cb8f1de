"""What to do about a program that fails by itself, as far as its last words tell."""

import re
import sys
import tempfile
from pathlib import Path

from autotune.errors import MeasurementError, ProgramError
from autotune.measurement.measurement import OUR_FAULT, Failure
from autotune.measurement.processes.endings import NOT_WATCHED, left_with
from autotune.source import missing_from_recipe
from autotune.workload.program.target import SCRIPT, Target

WRONG_USAGE = 2  # the exit code by which argparse, click and typer refuse a command line

# What Python, torch and urllib say, as of Python 3.11 and torch 2.13, with what helps.
_CURES = (
    (
        OUR_FAULT,
        "Nothing is wrong with the program. Please report it with what is printed above.",
    ),
    (
        r"No module named 'torch\.|was removed in the NumPy",
        (
            "It is written for another version of that library: run it in the environment in "
            "which it trains, with autotune installed there."
        ),
    ),
    (
        r"ModuleNotFoundError: No module named",
        (
            f"Install what it imports for {sys.executable}, which runs it here, or install "
            "autotune into the environment in which it runs."
        ),
    ),
    (
        r"Torch not compiled with CUDA|Found no NVIDIA driver|[Nn]o CUDA( GPUs|-capable device)",
        (
            "It trains on a GPU and finds none here: tune it where it trains, or give it the "
            "argument that makes it train on the CPU."
        ),
    ),
    (
        r"environment variable \w+ expected|KeyError: '(LOCAL_RANK|RANK|WORLD_SIZE|MASTER_ADDR)'",
        (
            "It is written to be started by torchrun: as a single process it can be measured with "
            "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=0 before autotune."
        ),
    ),
    (
        r"URLError|ConnectionError|Name or service not known|Temporary failure in name resolution",
        (
            "It wants something from the network that cannot be reached: run it where it can, "
            "once, so that what it downloads is there."
        ),
    ),
    (
        r"FileNotFoundError",
        (
            "Start autotune in the folder in which you start the program, with the same arguments "
            "after --."
        ),
    ),
)


def cure(reason: str, output: str) -> str:
    """What to do about a program that ended for this `reason`, having printed `output`."""
    cures = (advice for pattern, advice in _CURES if re.search(pattern, reason))
    printed = "; what it printed is above" if output.strip() else ""
    return next(cures, f"Mend the program first{printed}.")


def why_nothing(target: Target, failure: Failure) -> MeasurementError | ProgramError:
    """The error that a program ends with which could not be measured, and what to do about it."""
    name = target.path or "the training"
    if failure.reason == left_with(WRONG_USAGE):
        return ProgramError(
            f"{name} did not take its arguments: {failure.reason}",
            f"Arguments for your program go after --: {Path(name).name} -- ARGS",
            output=failure.output,
        )
    if failure.kind in ("crashed", "out_of_memory", "killed", "device_error", "device_lost"):
        return ProgramError(
            f"{name} failed: {failure.reason}",
            cure(failure.reason, failure.output),
            output=failure.output,
        )
    if failure.kind == "no_space":
        return MeasurementError(
            f"{name}: what it wrote filled {tempfile.gettempdir()} ({failure.reason})",
            "Its writes are kept there while it is measured, to be thrown away: free some space, "
            "or set TMPDIR to a directory with more.",
        )
    if NOT_WATCHED in failure.reason:
        return MeasurementError(
            f"{name}: {failure.reason}",
            "Where it can train in a single process (one rank, none spawned), give it the "
            "arguments for that: `autotune run` then puts what was found into all its processes.",
        )
    if failure.kind == "hung":
        return MeasurementError(
            f"{name}: {failure.reason}",
            "Let it train sooner, on less data, or give it more time with a larger budget. "
            "Steps are seen by an optimizer's, or by a backward pass.",
        )
    return MeasurementError(f"{name}: {failure.reason}", _how_to_train(target))


def _how_to_train(target: Target) -> str:
    missing = missing_from_recipe(target.source)
    if len(missing) == 1 and target.kind == SCRIPT:
        return f"A recipe has build_model() and build_dataset(): no {missing.pop()}() is here."
    return (
        "No optimizer's step was timed, nor a backward pass. Where the program has a loop with "
        "loss.backward() and optimizer.step(), let it train for some seconds, with more epochs or "
        "more data."
    )
