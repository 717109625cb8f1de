"""Which way of protection this machine permits, found by trying it in a process of its own."""

import contextlib
import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from autotune.measurement.sandbox.layer import Layer
from autotune.measurement.sandbox.named import entries

# Made in the layer's root, and protected: what the attempt changes, and must find unchanged
# outside.
GROUND = "ground"
TIME_LIMIT_SECONDS = 60.0
# How far others' files are looked for: in all, and of a directory.
MOST_LOOKED_AT, MOST_ENTRIES = 2000, 300


def attempt(layers: Sequence[Layer]) -> list[str]:
    """Try `layers` one after the other up to the first that works; for each that was tried why it
    does not, "" for the one that does.
    """
    package_parent = str(Path(__file__).resolve().parents[3])
    search_path = os.pathsep.join(filter(None, [package_parent, os.environ.get("PYTHONPATH", "")]))
    try:
        done = subprocess.run(
            # -P: the user's directory may have a json.py of its own.
            [sys.executable, "-P", "-c", f"from {__name__} import answer; answer()"],
            input=pickle.dumps(list(layers)),
            env={**os.environ, "PYTHONPATH": search_path},
            capture_output=True,
            timeout=TIME_LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        answers = [*_answers(expired.stdout), f"it took more than {TIME_LIMIT_SECONDS:.0f} s"]
        left = layers[len(answers) :]
        return [*answers, *(attempt(left) if left else [])]
    answers = _answers(done.stdout)
    return answers or [done.stderr.decode(errors="replace").strip()[-500:] or "the attempt died"]


def _answers(said: bytes | None) -> list[str]:
    return [str(json.loads(line)) for line in (said or b"").splitlines()]


def answer() -> None:
    """The other end of `attempt`: pickled layers come in, a line of JSON goes out for each."""
    for layer in pickle.load(sys.stdin.buffer):  # noqa: S301  # from `attempt`
        reason = _try_in_child(layer)
        sys.stdout.write(json.dumps(reason) + "\n")
        if not reason:
            break


def _try_in_child(layer: Layer) -> str:
    """Why `layer` does not work, "" if it does."""
    reason = _try_to_use(layer)
    if not reason and layer.user_namespace:
        others = held_by_others((*layer.territory.protected, *layer.territory.named))
        said = f"{others} is another user's or group's, and an overlay of yours cannot hold it"
        return said if others else ""
    return reason


def _try_to_use(layer: Layer) -> str:
    ground = layer.root / GROUND
    (ground / "full" / "inner").mkdir(parents=True)
    for name in ("changed", "removed", "full/inner/file"):
        (ground / name).write_text("before")
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        os.write(write_end, (_use(layer, ground) or "works").encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        reason = answer.read()
    os.waitpid(child, 0)
    if reason != "works":
        return reason or "the process was killed"
    files = sorted(path for path in ground.rglob("*") if path.is_file())
    names = [str(path.relative_to(ground)) for path in files]
    intact = names == ["changed", "full/inner/file", "removed"]
    return (
        ""
        if intact and all(path.read_text() == "before" for path in files)
        else "a write came through"
    )


def held_by_others(directories: Iterable[str]) -> str:
    """The first file or directory near the top of `directories`, but not one of these itself, that
    this user may change and that has another owner or group; "" without one.

    A user namespace knows one of each: a file of any other is too large for its overlay to copy.
    """
    near = (path for directory in directories for path in _near_the_top(directory))
    for path in islice(near, MOST_LOOKED_AT):
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            own = (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())
            if not (own or stat.S_ISLNK(found.st_mode)) and os.access(path, os.W_OK):
                return path
    return ""


def _near_the_top(directory: str) -> Iterator[str]:
    top = entries(Path(directory), MOST_ENTRIES)
    yield from (entry.path for entry in top)
    for folder in (entry.path for entry in top if entry.is_dir(follow_symlinks=False)):
        yield from (entry.path for entry in entries(Path(folder), MOST_ENTRIES))


def _use(layer: Layer, ground: Path) -> str:
    """Enter `layer` and change files of every kind; returns what went wrong, "" if nothing."""
    from autotune.measurement.sandbox.entry import enter

    try:
        enter(layer)
        with (ground / "changed").open("a") as file:
            file.write(", after")
        (ground / "removed").unlink()
        shutil.rmtree(ground / "full")
        (ground / "full").mkdir()
        (ground / "changed").rename(ground / "full" / "renamed")
        read_back = (ground / "full" / "renamed").read_text()
        shown = sorted(path.name for path in ground.rglob("*"))
    except OSError as error:
        return error.strerror or repr(error)
    good = read_back == "before, after" and shown == ["full", "renamed"]
    return "" if good else "what was written does not read back"
