"""Protection in Python, where mounts are forbidden: calls that name a protected path are led to the
run's own copy.

Covers the file functions of `builtins`, `io` and `os` with all that is built on them,
`sqlite3.connect`, `torch.save` and `torch.load`. Files that a compiled library or another program
opens for itself cannot be redirected: it does not see what the run has written, and the kernel
refuses its writes where it has Landlock.

Once a run has written anything, or where a run before it did before its first step, opening a file
costs it about 30 microseconds more (measured on a processor of 2.5 GHz).
"""

import functools
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from autotune.measurement.sandbox.directory_calls import DirectoryCalls
from autotune.measurement.sandbox.file_calls import FileCalls, FileFunction
from autotune.measurement.sandbox.layer import Layer
from autotune.measurement.sandbox.lead import Inside, Lead
from autotune.measurement.sandbox.view import View

CHANGING = ("chmod", "chown", "lchown", "utime", "truncate", "setxattr", "removexattr")
# Where originals stay: imports work on these directly.
UNTOUCHED_MODULES = frozenset({"posix", "_io"})


def enter(layer: Layer) -> tuple[View, Inside]:
    """Redirect this process's writes; returns what the guard needs."""
    for name in ("upper", "hidden"):
        (layer.root / name).mkdir()
    view, inside = View(layer), Inside()
    sys.dont_write_bytecode = True
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # removes trees by paths
    replaced = dict(_replacements(Lead(view, inside)))
    for follows in (
        os.supports_follow_symlinks,
        os.supports_dir_fd,
        os.supports_fd,
        os.supports_effective_ids,
    ):
        follows |= {replaced[function] for function in follows & replaced.keys()}
    _replace_everywhere(replaced)
    return view, inside


def _replace_everywhere(replaced: dict[FileFunction, FileFunction]) -> None:
    """In every module, since many keep `open` or `os.remove` under names of their own."""
    by_identity = {id(real): redirected for real, redirected in replaced.items()}
    for name, module in list(sys.modules.items()):
        if name in UNTOUCHED_MODULES:
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in by_identity:
                setattr(module, attribute, by_identity[id(value)])


def _replacements(lead: Lead) -> Iterator[tuple[FileFunction, FileFunction]]:
    """Each real function with the one that takes its place."""
    import sqlite3

    files, directories = FileCalls(lead), DirectoryCalls(lead)
    not_following = functools.partial(files.reading, follow=False)
    own: dict[str, FileFunction] = {
        **dict.fromkeys(("stat", "statvfs", "getxattr", "listxattr"), files.reading),
        **dict.fromkeys(("lstat", "readlink"), not_following),
        **dict.fromkeys(CHANGING, files.changing),
        **dict.fromkeys(("mkdir", "mkfifo", "mknod"), files.making),
        **dict.fromkeys(("remove", "unlink"), directories.remove),
        **dict.fromkeys(("rename", "replace"), directories.rename),
        "access": files.access,
        "open": files.open,
        "rmdir": directories.rmdir,
        "symlink": directories.symlink,
        "link": directories.link,
        "listdir": directories.listdir,
        "scandir": directories.scandir,
        "chdir": directories.chdir,
        "getcwd": directories.getcwd,
        "getcwdb": directories.getcwdb,
    }
    for name, redirected in own.items():
        real = getattr(os, name)
        yield real, _in_place_of(real, redirected, lead)
    yield open, _in_place_of(open, files.open_file, lead)
    yield sqlite3.connect, _in_place_of(sqlite3.connect, files.connect, lead)
    if "torch" in sys.modules:
        import torch

        yield torch.save, _in_place_of(torch.save, files.save, lead)
        yield torch.load, _in_place_of(torch.load, files.load, lead)


def _in_place_of(real: FileFunction, redirected: FileFunction, lead: Lead) -> FileFunction:
    @functools.wraps(real)
    def call(*arguments: Any, **named: Any) -> Any:
        if lead.inside.on:
            return real(*arguments, **named)
        try:
            return redirected(real, *arguments, **named)
        except OSError as error:
            if isinstance(error.filename, str):
                error.filename = lead.view.own(error.filename)
            raise

    return call
