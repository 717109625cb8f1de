"""The prepared layer: what a program wrote before its first step, kept for the runs after it.

Kept as a tree of files and a list of what was deleted, so that it does not depend on the way of
protection. Empty directories are left out: making one again is free, and programs that insist on
making theirs still can.
"""

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autotune.measurement.sandbox.layer import MOUNTED, Layer, Way

# At most this share of the free space is spent on a prepared layer; beyond it every run prepares
# for itself.
FREE_SPACE_SHARE = 0.5
FICLONE = 0x40049409  # linux/fs.h: share blocks until one of the two files is written to


@dataclass(slots=True, kw_only=True)
class _Capture:
    """A prepared layer in the making; `room_bytes` is what may still be copied."""

    tree: Path
    room_bytes: int
    deleted: list[str] = field(default_factory=list)

    def keep(self, path: str, shown: Path) -> None:
        """Copy the file or link `shown`, which the program knows as `path`."""
        self.room_bytes -= shown.lstat().st_size
        if self.room_bytes < 0:
            raise OSError("the prepared files would take too much of the free space")
        target = self.tree / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_file(shown, target)

    def keep_attributes(self, path: str, shown: Path) -> None:
        """Give a directory that was kept the attributes it has in the run."""
        target = self.tree / path[1:]
        if target.is_dir():
            _copy_owner(shown, target)
            shutil.copystat(shown, target)


def capture(layer: Layer, target: Path) -> None:
    """Copy what the live run of `layer` has written and deleted so far to `target`.

    Raises:
        OSError: it does not fit, or the run is gone; `target` is then incomplete.
    """
    (target / "tree").mkdir(parents=True)
    taken = _into(target)
    for path, upper, shown in _written_below(layer):
        _take(taken, path, upper, shown, whole=False)
    if layer.way is not Way.OVERLAY:
        taken.deleted += [marker.read_text() for marker in (layer.root / "hidden").iterdir()]
    (target / "deleted.json").write_text(json.dumps(taken.deleted))


def written(layer: Layer) -> frozenset[str]:
    """The regular files that the live run of `layer` has made or changed so far, as the program
    knows them; none where the run is gone.
    """
    found: list[str] = []
    with contextlib.suppress(OSError):
        for path, upper, _ in _written_below(layer):
            for directory, _, names in os.walk(upper):
                inner = path + directory[len(str(upper)) :]
                files = (name for name in names if _is_regular(os.path.join(directory, name)))
                found += [f"{inner}/{name}" for name in files]
    return frozenset(found)


def add(layer: Layer, target: Path, paths: Iterable[str]) -> None:
    """Copy some of the files that the live run of `layer` has written to what `target` holds.

    Raises:
        OSError: they do not fit, or the run is gone; those that were copied are whole.
    """
    taken = _into(target)
    shown = {path: shown for path, _, shown in _written_below(layer)}
    for path in paths:
        root = max((each for each in shown if path.startswith(f"{each}/")), key=len)
        taken.keep(path, shown[root] / path[len(root) + 1 :])


def _into(target: Path) -> _Capture:
    room = int(shutil.disk_usage(target).free * FREE_SPACE_SHARE)
    return _Capture(tree=target / "tree", room_bytes=room)


def _written_below(layer: Layer) -> list[tuple[str, Path, Path]]:
    """Each directory that the run of `layer` writes below: its name in the program, where the
    writes are, and the directory as the run sees it.
    """
    if layer.way is not Way.OVERLAY:
        return [("", layer.root / "upper", layer.root / "upper")]
    process, mounted = json.loads((layer.root / MOUNTED).read_text())
    # The run's mounts are seen through its process; its writes may even be in its memory.
    inside = f"/proc/{process}/root"
    return [(path, Path(inside + upper), Path(inside + path)) for path, upper in mounted]


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def copy_file(source: Path, target: Path) -> None:
    """Copy a file or link with its attributes, sharing its blocks where the file system can."""
    if source.is_symlink() or not _clone(source, target):
        shutil.copy2(source, target, follow_symlinks=False)
    _copy_owner(source, target)
    shutil.copystat(source, target, follow_symlinks=False)


def copy_tree(source: Path, target: Path) -> None:
    """Copy what is in a directory into another, as `copy_file` does."""

    def copied(name: str, copy: str) -> str:
        copy_file(Path(name), Path(copy))
        return copy

    shutil.copytree(source, target, symlinks=True, copy_function=copied, dirs_exist_ok=True)


def _clone(source: Path, target: Path) -> bool:
    with source.open("rb") as read, target.open("wb") as written, contextlib.suppress(OSError):
        fcntl.ioctl(written, FICLONE, read.fileno())
        return True
    return False


def _copy_owner(source: Path, target: Path) -> None:
    found = source.lstat()
    with contextlib.suppress(PermissionError):  # an ordinary user, a file of someone else's
        os.chown(target, found.st_uid, found.st_gid, follow_symlinks=False)


def _take(taken: _Capture, path: str, upper: Path, shown: Path, *, whole: bool) -> None:
    """Keep what the run changed in the directory `path`, of which it sees what is `shown`, its own
    writes in `upper`: nothing shines through from the user's where that is the `whole` of it.
    """
    if whole and os.path.isdir(path):
        taken.deleted += [
            f"{path}/{name}" for name in set(os.listdir(path)) - set(os.listdir(shown))
        ]
    for name in os.listdir(shown if whole else upper):
        inner, changed, seen = f"{path}/{name}", upper / name, shown / name
        if not whole and _is_whiteout(changed):
            taken.deleted.append(inner)
            continue
        mode = seen.lstat().st_mode
        if stat.S_ISDIR(mode):
            _take(taken, inner, changed, seen, whole=whole or _replaces(changed))
        elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            taken.keep(inner, seen)
    if path:
        taken.keep_attributes(path, shown)


def _is_whiteout(path: Path) -> bool:
    """Whether this is the kernel's mark, in an upper directory, for a file that was deleted."""
    found = path.lstat()
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _replaces(directory: Path) -> bool:
    """Whether an upper directory hides the one below it, or shows another (it was renamed)."""
    return any(
        name.endswith((".overlay.opaque", ".overlay.redirect")) for name in os.listxattr(directory)
    )


def remove_tree(path: Path) -> None:
    """Remove a directory whatever its permissions, as far as it can be removed; writes nothing."""
    for directory in _directories(path):
        with contextlib.suppress(OSError):
            os.chmod(directory, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def _directories(path: Path) -> Iterator[Path]:
    yield path
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _directories(Path(entry.path))
