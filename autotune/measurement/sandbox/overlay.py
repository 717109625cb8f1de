"""Protection by the kernel: overlays over protected directories, seen by one run alone."""

import contextlib
import errno
import functools
import json
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from autotune.measurement.sandbox.layer import MOUNTED, Layer
from autotune.measurement.sandbox.namespace import (
    bind,
    drop_capabilities,
    enter_own_namespace,
    listening_sockets,
    mount,
    mount_points,
)
from autotune.measurement.sandbox.prepared import copy_tree
from autotune.measurement.sandbox.territory import Cover, is_in

# Of a larger file that is protected by itself no run has a copy: it can only be read.
MOST_COPIED_BYTES = 64 << 20
# What may be had in one run, and not in the next.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def enter(layer: Layer) -> None:
    """Put this process, and all that it will start, above its own overlays.

    Call it right after the fork, while the process has a single thread.

    Raises:
        OSError: this machine does not permit it.
    """
    working_directory = os.getcwd()
    enter_own_namespace(user=layer.user_namespace)
    root = layer.root / "store"
    root.mkdir()
    if layer.in_memory:
        mount("autotune", str(root), kind="tmpfs", options="mode=0700")
    plan = layer.territory.plan(tuple(mount_points()))
    plan = (*plan, *_servers(plan))
    if any(path == "/" for path, _ in plan):
        raise OSError(errno.EBUSY, "the root of all files cannot be overlaid")
    with contextlib.ExitStack() as handles:
        # Taken before anything is mounted: afterwards the overlays hide what these lead to.
        below = [_handle(path, handles) for path, _ in plan]
        store = _Store(layer, handles)
        mounted = [
            _cover(layer, path, cover, handle, store)
            for (path, cover), handle in zip(plan, below, strict=True)
        ]
    if layer.user_namespace:
        drop_capabilities()
    uppers = [(path, upper) for (path, _), upper in zip(plan, mounted, strict=True) if upper]
    (layer.root / MOUNTED).write_text(json.dumps([os.getpid(), uppers]))
    os.chdir(working_directory)  # the old one is the directory below the overlay
    _remove_deleted(layer, [path for path, _ in uppers])
    _move_across_mounts(layer.territory.files)


def _servers(plan: Sequence[tuple[str, Cover]]) -> list[tuple[str, Cover]]:
    """The sockets of servers below what is covered: one in an overlay leads to nobody."""
    covered = [path for path, cover in plan if cover is not Cover.REAL]
    with contextlib.suppress(OSError):  # the kernel does not tell
        found = (path for path in listening_sockets() if is_in(covered, path))
        return [(path, Cover.REAL) for path in found if os.path.exists(path)]
    return []


def _handle(path: str | Path, handles: contextlib.ExitStack) -> str:
    """A name without special characters, valid whatever is mounted over `path`."""
    handle = os.open(path, os.O_PATH)
    handles.callback(os.close, handle)
    return f"/proc/self/fd/{handle}"


class _Store:
    """Where writes go, and what was prepared: by handles, for an overlay may come to lie over
    both.
    """

    def __init__(self, layer: Layer, handles: contextlib.ExitStack) -> None:
        self.user_namespace = layer.user_namespace
        self._root = layer.root / "store"
        self._handle = Path(_handle(self._root, handles))
        prepared = layer.prepared
        self._prepared = Path(_handle(prepared / "tree", handles)) if prepared else None
        self._shares = 0

    def share(self) -> tuple[Path, Path]:
        """A new directory: by its name, and by a handle that holds whatever is mounted."""
        name = str(self._shares)
        self._shares += 1
        (self._handle / name).mkdir()
        return self._root / name, self._handle / name

    def copied(self, file: str) -> str:
        """A copy of a file, by a handle."""
        _, share = self.share()
        copy = share / "copy"
        shutil.copy2(file, copy)
        with contextlib.suppress(OSError):  # an ordinary user, a file of someone else's
            os.chown(copy, os.stat(file).st_uid, os.stat(file).st_gid)
        return str(copy)

    def prepared(self, path: str) -> Path | None:
        """What was prepared of a directory."""
        tree = self._prepared / path[1:] if self._prepared else None
        return tree if tree is not None and tree.is_dir() else None


def _cover(layer: Layer, path: str, cover: Cover, below: str, store: _Store) -> str:
    """Carry out one line of the plan; returns the overlay's upper directory, if it is one."""
    if cover is Cover.COPY:
        small = os.stat(below).st_size <= MOST_COPIED_BYTES
        bind(store.copied(below) if small else below, path, read_only=not small)
        return ""
    if cover in (Cover.OVERLAY, Cover.ATTEMPT):
        try:
            return _overlay(path, below, store)
        except OSError as error:  # a file system that cannot lie below an overlay
            if path in layer.territory.protected or error.errno in _NO_ROOM:
                raise
            cover = Cover.READ_ONLY if cover is Cover.OVERLAY else Cover.REAL
    bind(below, path, read_only=cover is Cover.READ_ONLY)
    return ""


def _overlay(path: str, below: str, store: _Store) -> str:
    tree = store.prepared(path)
    with contextlib.ExitStack() as handles:
        if tree is not None:
            with contextlib.suppress(OSError):  # one of the two may lie in the other
                return _mounted(path, [_handle(tree, handles), below], store, handles)
        return _mounted(path, [below], store, handles, copied=tree)


def _mounted(
    path: str,
    lowers: list[str],
    store: _Store,
    handles: contextlib.ExitStack,
    *,
    copied: Path | None = None,
) -> str:
    """Mount an overlay over `path`; its upper directory, which begins with what is `copied`."""
    named, share = store.share()
    upper, work = share / "upper", share / "work"
    upper.mkdir()
    work.mkdir()
    if copied is not None:
        copy_tree(copied, upper)
    _copy_attributes(path, upper)  # the top of an overlay shows the upper directory's own
    options = [
        f"lowerdir={':'.join(lowers)}",
        f"upperdir={_handle(upper, handles)}",
        f"workdir={_handle(work, handles)}",
        # Directories that were there can be renamed; a user namespace may not have that.
        *(
            ["userxattr"]
            if store.user_namespace
            else ["redirect_dir=on", "metacopy=off", "index=off"]
        ),
    ]
    mount("autotune", path, kind="overlay", options=",".join(options))
    return str(named / "upper")


def _copy_attributes(source: str, target: Path) -> None:
    found = os.stat(source)
    with contextlib.suppress(OSError):  # an ordinary user, a directory of someone else's
        os.chown(target, found.st_uid, found.st_gid)
    shutil.copystat(source, target)


def _remove_deleted(layer: Layer, covered: Sequence[str]) -> None:
    """What the observed run deleted before its first step is gone for this one too."""
    if layer.prepared is None:
        return
    for path in json.loads((layer.prepared / "deleted.json").read_text()):
        if not is_in(covered, path):
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)


def _move_across_mounts(copies: Collection[str]) -> None:
    """Let `os.rename` work between what is one file system outside and two mounts here, and with
    the `copies` of single files, which are mounts: they are written over, and `os.unlink` empties
    them.
    """
    os.rename = _moving(os.rename, copies)
    os.replace = _moving(os.replace, copies)
    os.unlink = _removing(os.unlink, copies)
    os.remove = _removing(os.remove, copies)


def _moving(rename: Callable[..., None], copies: Collection[str]) -> Callable[..., None]:
    @functools.wraps(rename)
    def move(src: Any, dst: Any, **directories: Any) -> None:
        try:
            rename(src, dst, **directories)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EBUSY) or directories:
                raise
            source, target = os.fsdecode(src), os.fsdecode(dst)
            if error.errno == errno.EXDEV:
                _copy_over(source, target, rename)
            elif os.path.isfile(source) and os.path.realpath(target) in copies:
                shutil.copyfile(source, target)
                os.unlink(source)
            else:
                raise

    return move


def _removing(remove: Callable[..., None], copies: Collection[str]) -> Callable[..., None]:
    @functools.wraps(remove)
    def gone(path: Any, **directory: Any) -> None:
        try:
            remove(path, **directory)
        except OSError as error:
            its_own = error.errno == errno.EBUSY and not directory
            if not its_own or os.path.realpath(os.fsdecode(path)) not in copies:
                raise
            os.truncate(path, 0)

    return gone


def _copy_over(source: str, target: str, rename: Callable[..., None]) -> None:
    if os.path.isdir(source) and not os.path.islink(source):
        if os.path.lexists(target):
            os.rmdir(target)  # as rename: only an empty directory is replaced
        shutil.copytree(source, target, symlinks=True)
        shutil.rmtree(source)
        return
    beside = f"{target}.autotune-{os.getpid()}"
    shutil.copy2(source, beside, follow_symlinks=False)
    rename(beside, target)
    os.unlink(source)
