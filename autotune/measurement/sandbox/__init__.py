"""Keeps the user's files untouched while their program is measured.

A run's process enters a layer: what it writes, renames or removes below protected directories goes
to a scratch directory and is thrown away, and it reads back what it wrote. Linux does it with a
mount namespace and overlays; where those are forbidden, writes are redirected in Python and the
kernel refuses, if it can, what went round Python.

Each run has a directory for temporary files of its own (`TMPDIR`). Real in every run are `/tmp` and
`/dev/shm`, unless one is itself protected: what a program writes there by that name stays.
"""

from autotune.measurement.sandbox.entry import enter
from autotune.measurement.sandbox.environment import environment, quiet_environment
from autotune.measurement.sandbox.layer import Layer, Way
from autotune.measurement.sandbox.protected import (
    directories_in_texts,
    other_directories,
    protected_directories,
)
from autotune.measurement.sandbox.sandbox import Sandbox

__all__ = [
    "Layer",
    "Sandbox",
    "Way",
    "directories_in_texts",
    "enter",
    "environment",
    "other_directories",
    "protected_directories",
    "quiet_environment",
]
