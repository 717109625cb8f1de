"""What to do about a program that fails by itself, as far as its last words tell."""

import re
import sys

from autotune.measurement.measurement import OUR_FAULT

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
