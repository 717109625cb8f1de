"""One at a time on a device of this host: two that are timed side by side are both timed wrong."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from autotune import nvml
from autotune.machine import CPU, CUDA
from autotune.measurement.sandbox.environment import MEASURED

# The same for every user and session of the host, wherever their temporary files go.
_FOLDER = Path("/tmp")  # noqa: S108  # the lock has no content, and only its owner may replace it


class DeviceLock:
    """Held while something is timed on `device`, "cpu" or "cuda" (of several GPUs, the first that
    this process may use); the kernel lets go of it when its process ends. `waiting` is called once
    where it must be waited for.
    """

    def __init__(self, device: str, *, waiting: Callable[[], None]) -> None:
        self._device = device
        self._uuid = ""
        self._waiting = waiting
        self.waited_seconds = 0.0

    def follow(self, uuid: str) -> None:
        """From now on the GPU of this id is meant too, which CUDA was seen to train on. The first
        one still is: others are profiled under its lock, until it is seen where they train.
        """
        if uuid:
            self._device, self._uuid = CUDA, uuid

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the device to oneself, as far as files can be locked here.

        A program that searches itself, while it is measured, has the device already.
        """
        with ExitStack() as until:
            with suppress(OSError):
                for name in self._names() if MEASURED not in os.environ else ():
                    lock = _opened(name)
                    until.callback(os.close, lock)
                    began = time.monotonic()
                    self._take(lock)
                    self.waited_seconds += time.monotonic() - began
            yield

    def _take(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)

    def _names(self) -> list[str]:
        """Of its locks, in the order in which everybody takes them."""
        if self._device == CPU:
            return [CPU]
        return sorted({f"{self._device}-{_called(uuid)}" for uuid in ("", self._uuid)})


def _opened(name: str) -> int:
    """Another user's file can be read and locked, but in a shared folder not made again."""
    path = _FOLDER / f"autotune-{name.replace('/', '-')}.lock"
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if os.fstat(lock).st_uid == os.geteuid():  # whatever the umask says
            os.fchmod(lock, 0o644)
        return lock


def _called(uuid: str) -> str:
    """The GPU of this id, or the first: the same by whatever it is called here, its number, its id,
    or the beginning of it. Only one of which its driver says nothing goes by what it is called.
    """
    with nvml.open_device(uuid) as gpu:
        own = gpu.uuid() if gpu else None
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    return own or first or "0"
