"""autotune: a PyTorch training program, measured, tuned and handed back faster.

`profile` and `search` take a training program as a file; `tune` takes a model and a dataset and
gives a tuned `Trainer`. torch is imported when one of them is first used, not before.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.api import profile, search, tune
    from autotune.errors import (
        AutotuneError,
        MeasurementError,
        PatchError,
        ProgramError,
        UsageError,
    )
    from autotune.listener import Listener
    from autotune.result import Result
    from autotune.trainer import Callback, Trainer

__version__ = "0.1.0"

__all__ = [
    "AutotuneError",
    "Callback",
    "Listener",
    "MeasurementError",
    "PatchError",
    "ProgramError",
    "Result",
    "Trainer",
    "UsageError",
    "profile",
    "search",
    "tune",
]

_HOMES = {
    "autotune.api": ("profile", "search", "tune"),
    "autotune.errors": (
        "AutotuneError",
        "MeasurementError",
        "PatchError",
        "ProgramError",
        "UsageError",
    ),
    "autotune.listener": ("Listener",),
    "autotune.result": ("Result",),
    "autotune.trainer": ("Callback", "Trainer"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
