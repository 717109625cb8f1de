"""What one run is told about where its writes go: plain data that crosses processes."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from autotune.measurement.sandbox.territory import Territory

# What one run mounted, for `prepared.capture`: [process id, [[directory, its upper directory],
# ...]].
MOUNTED = "mounted.json"


class Way(StrEnum):
    """How the user's files are kept untouched."""

    OVERLAY = "overlay"  # by the kernel: a mount namespace with overlays
    REDIRECT = "redirect"  # in Python, where mounts are forbidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One run's share of the scratch directory.

    Attributes:
        way: how writes are kept from the user's files.
        root: directory of this run's writes.
        territory: what is protected.
        prepared: directory of the prepared layer below it; None without one.
        user_namespace: the run is an ordinary user's and needs a user namespace to mount anything.
        in_memory: writes go to memory, since the scratch directory's file system cannot hold an
            overlay.
        kernel_guard: writes that were not redirected are refused by the kernel.
    """

    way: Way
    root: Path
    territory: Territory
    prepared: Path | None = None
    user_namespace: bool = False
    in_memory: bool = False
    kernel_guard: bool = False
