"""Which directories a program's runs could change: what is protected while it is measured."""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from autotune.measurement.sandbox.named import (
    PROGRAMS,
    SHARED,
    entries,
    named_directories,
    nearest_directory,
    placed,
    shared_files,
    words,
)
from autotune.measurement.sandbox.namespace import mount_points
from autotune.measurement.sandbox.territory import SYSTEM, is_in
from autotune.workload.program.target import is_project, project_root

# How far links are looked for: experiments keep `data` and `checkpoints` near the top; a data set's
# own millions of files are not walked.
LINK_DEPTH = 2
LINK_ENTRIES = 300
TOP_ENTRIES = 1000
MOST_LOOKED_AT, MOST_OWN = 2000, 50
OWN_LEVELS = 3  # below a disk's top, where an ordinary user's own directories are looked for
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "overlay", "tmpfs")


def protected_directories(
    program: Path, arguments: Sequence[str] = (), extra: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """The directories that a run of `program` is expected to change files in.

    Its project's root, the working directory, the home directory, what its arguments name (`--out
    DIR`, `--data=FILE`), `extra`, and where links near the top of any of these lead (`checkpoints
    -> /mnt/big`).
    """
    there = [path for path in _places(arguments) if os.path.exists(path)]
    given = [nearest_directory(path) for path in there if not shared_files([str(path)])]
    found = (project_root(program.resolve().parent), Path.cwd(), Path.home(), *given, *extra)
    return _with_links(each for each in found if each != Path("/"))


def directories_in_texts(program: Path, arguments: Sequence[str] = ()) -> tuple[Path, ...]:
    """Further ones: those that the texts of the program's project, and the settings files among
    its arguments, name (see `named_directories`), the folder above a script that lies in no
    repository (its paths go by `dirname(dirname(__file__))`), and the nearest directories of what
    arguments name and is not there yet; and the files right in shared directories (`/tmp`) that
    any of these name.
    """
    root = project_root(program.resolve().parent)
    new = [nearest_directory(path) for path in _places(arguments) if not os.path.exists(path)]
    named = named_directories(root, [program, *map(Path, _values(arguments))])
    found = (*_above(root), *new, *named, *shared_files(map(str, _places(arguments))))
    return _with_links(each for each in found if each != Path.cwd())


def other_directories() -> tuple[Path, ...]:
    """The machine's directories that no program is known to write to: those right below the root,
    and local disks; of an ordinary user, what is their own near the top of those. No system's, no
    shared ones, and none that has another machine's disk below it: that may be gone, and whoever
    asks for it then waits for ever.
    """
    mounts = mount_points()
    tops = [entry.path for entry in entries(Path("/"), TOP_ENTRIES) if _is_own(entry, mounts)]
    disks = [path for path, kind in mounts.items() if kind in LOCAL]
    found = [path for path in (*tops, *disks) if not is_in((*PROGRAMS, *SYSTEM, *SHARED[1:]), path)]
    remote = [mount for mount, kind in mounts.items() if kind not in LOCAL]
    whole = [
        Path(path)
        for path in dict.fromkeys(found)
        if path != "/" and not any(mount.startswith(path + "/") for mount in remote)
    ]
    return tuple(whole if os.geteuid() == 0 else islice(_own(whole), MOST_OWN))


def _own(tops: Iterable[Path]) -> Iterator[Path]:
    """The largest directories from `tops` on that are this user's, those near the top first."""
    waiting, left = deque((path, OWN_LEVELS) for path in tops), MOST_LOOKED_AT
    while waiting and left > 0:
        path, levels = waiting.popleft()
        left -= 1
        with suppress(OSError):
            if os.lstat(path).st_uid == os.geteuid():
                yield path
            elif levels:
                below = (each for each in entries(path, TOP_ENTRIES) if each.is_dir())
                waiting.extend((Path(each.path), levels - 1) for each in below)


def _is_own(entry: os.DirEntry[str], mounts: Mapping[str, str]) -> bool:
    """Whether this is a directory of the machine's own."""
    kind = mounts.get(entry.path)
    return entry.is_dir(follow_symlinks=False) if kind is None else kind in LOCAL


def _places(arguments: Sequence[str]) -> list[Path]:
    """The paths among a program's arguments."""
    given = (value for value in _values(arguments) if "/" in value or value == os.pardir)
    return [Path(place) for value in given if (place := placed(value))]


def _values(arguments: Sequence[str]) -> list[str]:
    """What arguments say: whole, behind "=", behind a letter (`-oDIR`), and in lists."""
    found: dict[str, None] = {}
    for argument in arguments:
        _, _, value = argument.partition("=")
        short = argument[2:] if argument.startswith("-") and argument[1:2] != "-" else ""
        found |= dict.fromkeys((argument, value, short, *words(argument)))
    return list(found)


def _with_links(directories: Iterable[Path]) -> tuple[Path, ...]:
    found = dict.fromkeys(directories)
    linked = (target for directory in found for target in _linked(directory))
    return tuple(dict.fromkeys((*found, *linked)))


def _linked(directory: Path, depth: int = LINK_DEPTH) -> list[Path]:
    """Directories that links in `directory` lead to, and links `depth` levels down."""
    found: list[Path] = []
    for entry in entries(directory, LINK_ENTRIES):
        if entry.is_symlink():
            target = os.path.realpath(entry.path)
            nearest = nearest_directory(Path(target))
            found += [] if is_in(PROGRAMS, target) or str(nearest) in SHARED else [nearest]
        elif depth > 1 and entry.is_dir():
            found.extend(_linked(Path(entry.path), depth - 1))
    return found


def _above(root: Path) -> tuple[Path, ...]:
    above = root.parent
    lone = not is_project(root)
    shared = str(above) in SHARED or above.parent == Path("/")
    return (above,) if lone and not shared else ()
