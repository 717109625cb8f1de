"""Which directories a program's runs could change: what is protected while it is measured."""

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from autotune.measurement.sandbox.namespace import mount_points
from autotune.measurement.sandbox.territory import SYSTEM, is_in

# How far links are looked for: experiments keep `data` and `checkpoints` near the top; a data set's
# own millions of files are not walked.
LINK_DEPTH = 2
LINK_ENTRIES = 300
# The same for the project's texts, its modules and its files of settings: of each directory, and in
# all.
TEXT_ENTRIES = 1000
MOST_ENTRIES = 20_000
MOST_TEXTS = 1000
MOST_TEXT_BYTES = 1 << 20
SETTINGS = (
    *(".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".env", ".gin", ".sh", ".txt"),
    *(".jsonnet", ".xml", ".csv"),
)
INSTALLED = ("site-packages", "dist-packages", "node_modules", ".git", "__pycache__")
MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "overlay", "tmpfs")
# Where links lead to programs (a virtual environment's python), not to files that training writes.
PROGRAMS = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/nix")

SHARED = ("/", "/tmp", "/var/tmp", "/var")  # noqa: S108
# A path from the root, from home, or out of the folder: in quotes, and between signs of its own.
_QUOTED = re.compile(r"""["'](?:file://)?((?:~|\.\.)?/[^"'\n]+|\.\.)["']""")
_BARE = re.compile(
    r"""(?<![^\s"'=:,\[(])(?:file://)?((?:~|\.\.)?/[^"'\s=:,;#<>|&()\[\]{}$]+|\.\.(?=\s))"""
)
_VARIABLE = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]+\b")


def protected_directories(
    program: Path, arguments: Sequence[str] = (), extra: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """The directories whose files a run of `program` could change.

    Its project's root, the working directory, the home directory, what its arguments name (`--out
    DIR`, `--data=FILE`; what does not exist yet counts as its nearest directory), what the
    project's modules and settings name by a path that may lead out of it or by a variable of the
    environment, `extra`, and where links near the top of any of these lead
    (`checkpoints -> /mnt/big`).
    """
    named = [value for argument in arguments for value in (argument, argument.partition("=")[2])]
    given = [_nearest_directory(Path(value)) for value in named if _names_a_place(value)]
    root = _project_root(program.resolve())
    texts = [program, *(Path(value) for value in named), *islice(_texts(root), MOST_TEXTS)]
    written = _written_in(dict.fromkeys(texts))
    found = (*_around(root), Path.cwd(), Path.home(), *given, *written, *extra)
    linked = [target for directory in dict.fromkeys(found) for target in _linked(directory)]
    return tuple(dict.fromkeys((*found, *linked)))


def other_directories() -> tuple[Path, ...]:
    """The machine's directories that no program is known to write to: those right below the root,
    and local disks. No system's, no shared ones, and none that has a mount below it: another
    machine's disk may be gone, and whoever asks for it then waits for ever.
    """
    mounts = mount_points()
    tops = [entry.path for entry in _entries(Path("/"), TEXT_ENTRIES) if _is_own(entry, mounts)]
    disks = [path for path, kind in mounts.items() if kind in LOCAL]
    found = [path for path in (*tops, *disks) if not is_in((*PROGRAMS, *SYSTEM, *SHARED[1:]), path)]
    return tuple(
        Path(path)
        for path in dict.fromkeys(found)
        if path != "/" and not any(mount.startswith(path + "/") for mount in mounts)
    )


def _is_own(entry: os.DirEntry[str], mounts: Mapping[str, str]) -> bool:
    """Whether this is a directory of the machine's own."""
    kind = mounts.get(entry.path)
    return entry.is_dir(follow_symlinks=False) if kind is None else kind in LOCAL


def _texts(top: Path) -> Iterator[Path]:
    """Modules and files of settings below `top`, those near it first; none of libraries."""
    waiting, left = deque([top]), MOST_ENTRIES
    while waiting and left > 0:
        entries = _entries(waiting.popleft(), TEXT_ENTRIES)
        left -= len(entries)
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            if entry.name.endswith((".py", *SETTINGS)):
                yield Path(entry.path)
            elif entry.name not in INSTALLED:
                waiting.extend([Path(entry.path)] if entry.is_dir(follow_symlinks=False) else [])


def _written_in(texts: Iterable[Path]) -> list[Path]:
    """The directories that `texts` name by paths that may lead out of the project, from the working
    directory or from their own; no shared ones (`/tmp`).
    """
    named: set[Path] = set()
    for file in texts:
        text = _read(file)
        paths = {*_QUOTED.findall(text), *([] if file.suffix == ".py" else _BARE.findall(text))}
        paths |= {os.environ[name] for name in os.environ.keys() & set(_VARIABLE.findall(text))}
        away = [os.path.expanduser(path) for path in paths if _names_a_place(path)]
        named.update(Path(folder, path) for path in away for folder in ("", file.parent))
    found = dict.fromkeys(map(_nearest_directory, sorted(named)))
    elsewhere = (*PROGRAMS, *SYSTEM)
    return [each for each in found if not (str(each) in SHARED or is_in(elsewhere, str(each)))]


def _read(file: Path) -> str:
    """The text of `file`; "" of what is data, or cannot be read."""
    try:
        if file.suffix in (".py", *SETTINGS) and file.stat().st_size <= MOST_TEXT_BYTES:
            return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        pass
    return ""


def _linked(directory: Path, depth: int = LINK_DEPTH) -> list[Path]:
    """Directories that links in `directory` lead to, and links `depth` levels down."""
    found: list[Path] = []
    for entry in _entries(directory, LINK_ENTRIES):
        if entry.is_symlink():
            target = os.path.realpath(entry.path)
            found += [] if is_in(PROGRAMS, target) else [_nearest_directory(Path(target))]
        elif depth > 1 and entry.is_dir():
            found.extend(_linked(Path(entry.path), depth - 1))
    return found


def _entries(directory: Path, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(islice(entries, most))
    except OSError:
        return []


def _project_root(program: Path) -> Path:
    folders = list(program.parents)
    return next(
        (folder for folder in folders if any((folder / mark).exists() for mark in MARKS)),
        folders[0],
    )


def _around(root: Path) -> tuple[Path, ...]:
    """The project's root, and the folder above that of a script that lies in no repository: its
    paths go by `dirname(dirname(__file__))`.
    """
    above = root.parent
    lone = not any((root / mark).exists() for mark in MARKS)
    shared = str(above) in SHARED or above.parent == Path("/")
    return (root, above) if lone and not shared else (root,)


def _names_a_place(value: str) -> bool:
    return (
        ("/" in value or value == os.pardir)
        and "\0" not in value
        and "://" not in value
        and len(value) < os.pathconf("/", "PC_PATH_MAX")
    )


def _nearest_directory(path: Path) -> Path:
    """`path` or the directory above it that exists, without links; the working directory in place
    of "/".
    """
    path = Path(os.path.realpath(os.path.expanduser(path)))
    found = next(folder for folder in (path, *path.parents) if os.path.isdir(folder))
    return Path.cwd() if found == Path("/") else found
