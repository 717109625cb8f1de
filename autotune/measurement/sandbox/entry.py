"""The door into a layer, for the process that is going to run the user's program."""

import os
import tempfile

from autotune.measurement.sandbox import guard, landlock, overlay, redirect, trackers
from autotune.measurement.sandbox.layer import Layer, Way

# A socket's name has 107 bytes (man 7 unix), of which multiprocessing's own has these.
LONGEST_DIRECTORY_BYTES = 107 - len("/pymp-xxxxxxxx/listener-xxxxxxxx")


def enter(layer: Layer) -> None:
    """From now on, what this process and its children write to protected directories goes to
    `layer`, and what it would tell an experiment tracker's server goes nowhere.

    Call it right after the fork, while the process has a single thread, before anything of the
    user's is run.

    Raises:
        OSError: the machine does not permit it; nothing of the user's may be run then.
    """
    _own_temporary_files(layer)
    trackers.keep_at_home()
    if layer.way is Way.OVERLAY:
        overlay.enter(layer)
        return
    view, inside = redirect.enter(layer)
    guard.watch(view, inside)
    if layer.kernel_guard:
        with inside:
            landlock.forbid_writes(layer.territory, allowed=[str(layer.root)])


def _own_temporary_files(layer: Layer) -> None:
    """Have temporary files thrown away too: a run that is killed cannot remove its own.

    Where their directory's name is long, they have it by way of an open file: loader workers make
    sockets there, and hang where a socket's name becomes too long.
    """
    directory = layer.root / "tmp"
    directory.mkdir()
    name = str(directory)
    if len(os.fsencode(name)) > LONGEST_DIRECTORY_BYTES:
        name = f"/proc/{os.getpid()}/fd/{os.open(directory, os.O_PATH)}"
    os.environ["TMPDIR"] = tempfile.tempdir = name
