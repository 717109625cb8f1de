"""Runs functions in child processes, inside a sandbox's layer or outside of any."""

import contextlib
import ctypes
import os
import pickle
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import MeasurementError
from autotune.measurement.sandbox import Layer, Sandbox, Way, enter

NOBODY = 65534
"".encode("cp437")  # what zip files need is loaded while every file may be read
PR_SET_DUMPABLE = 4

Started = contextlib.AbstractContextManager[tuple[int, Callable[[], Any]]]

# How a layer is forced to protect: its way, and what is changed in it.
VARIANTS = {
    "overlay": (Way.OVERLAY, {}),
    "overlay in memory": (Way.OVERLAY, {"in_memory": True}),
    "overlay of an ordinary user": (Way.OVERLAY, {"user_namespace": True}),
    "redirect": (Way.REDIRECT, {}),
    "redirect without kernel guard": (Way.REDIRECT, {"kernel_guard": False}),
}


class Arena:
    """A project, a sandbox that protects it, and a way to run functions in it."""

    def __init__(self, variant: str, folder: Path) -> None:
        self.variant = variant
        self.way, self.changes = VARIANTS[variant]
        self.as_nobody = "ordinary user" in variant and os.geteuid() == 0
        self.project = folder / "project"
        self.project.mkdir()
        try:
            self.sandbox = Sandbox([self.project], way=self.way, scratch_parent=folder / "scratch")
        except MeasurementError as error:
            pytest.skip(str(error))

    def layer(self) -> Layer:
        layer = replace(self.sandbox.layer(), **self.changes)
        if self.as_nobody:
            for path in (self.project, *self.project.rglob("*"), self.sandbox.scratch, layer.root):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        return layer

    def run(self, function: Callable[[], Any], layer: Layer | None = None) -> Any:
        """What `function` returns in a process above a layer of its own, or above `layer`."""
        chosen = self.layer() if layer is None else layer
        try:
            with self.started(function, chosen) as (_, receive):
                return receive()
        finally:
            if layer is None:
                self.sandbox.discard(chosen)

    def started(self, function: Callable[[], Any], layer: Layer) -> Started:
        """As `started`, above `layer`."""

        def inside() -> Any:
            if self.as_nobody:
                become_nobody()
            enter(layer)
            return function()

        return started(inside)


@contextlib.contextmanager
def arena(variant: str) -> Iterator[Arena]:
    """An arena in a directory that every user may see."""
    with tempfile.TemporaryDirectory(prefix="sandbox test, ") as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        built = Arena(variant, folder)
        with built.sandbox:
            yield built


def in_child(function: Callable[[], Any]) -> Any:
    """What `function` returns in a forked process; fails with its traceback if it raises."""
    with started(function) as (_, receive):
        return receive()


@contextlib.contextmanager
def started(function: Callable[..., Any]) -> Iterator[tuple[int, Callable[[], Any]]]:
    """A forked process that runs `function`: its id, and a function that waits for its result.

    That function fails with the child's traceback where it raised. The process is killed at the
    end.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = (True, function())
        except BaseException:  # noqa: BLE001  # goes to the parent, whatever it is
            answer = (False, traceback.format_exc())
        with os.fdopen(write_end, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        try:
            yield child, lambda: _value(*pickle.load(pipe))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _value(good: bool, value: Any) -> Any:
    assert good, value
    return value


def become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    # Else its files in /proc stay root's, which no process of an ordinary user has.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
