"""Which paths are protected while a program is measured, and which stay real."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path

# Below these nothing is a file of the user's: devices, the kernel's own views, sockets of services.
SYSTEM = ("/dev", "/proc", "/sys", "/run")
# How far links are looked for: experiments keep `data` and `checkpoints` near the top; a data set's
# own millions of files are not walked.
LINK_DEPTH = 2
LINK_ENTRIES = 300
# Where links lead to programs (a virtual environment's python), not to files that training writes.
PROGRAMS = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/nix")

SHARED = ("/", "/tmp", "/var/tmp", "/home", "/mnt", "/media", "/opt", "/srv", "/var")  # noqa: S108
_ABSOLUTE = re.compile(r"""["'](/[^"'\s]+)["']""")


class Cover(StrEnum):
    """What happens to one path of a mount plan."""

    OVERLAY = "overlay"  # writes go to the scratch layer
    REAL = "real"  # the directory itself shows through again
    READ_ONLY = "read-only"  # cannot be overlaid: writes are refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Territory:
    """Protected directories, and directories among or above them that stay real; absolute and
    without links.

    The nearest of the two above a path decides over it, and protection wins where both name the
    same path.
    """

    protected: tuple[str, ...]
    kept: tuple[str, ...]

    @staticmethod
    def of(protected: Iterable[Path], kept: Iterable[Path]) -> "Territory":
        """The territory of those directories that exist and are not the system's."""
        return Territory(
            protected=tuple(path for path in _directories(protected) if not _is_in(SYSTEM, path)),
            kept=_directories([*kept, *(Path(path) for path in SYSTEM)]),
        )

    def protects(self, path: str) -> bool:
        """Whether writing to `path` (absolute, without links) must not reach it."""
        while True:
            if path in self.protected:
                return True
            if path in self.kept or path == "/":
                return False
            path = path.rpartition("/")[0] or "/"

    def plan(self, mounts: Sequence[str]) -> tuple[tuple[str, Cover], ...]:
        """What to mount where, outermost first, on a machine that has mount points at `mounts`.

        An overlay hides the mounts below it, so each of them gets its own overlay or is shown
        again.
        """
        planned: dict[str, Cover] = {}
        for path in sorted(
            {*self.protected, *self.kept, *mounts}, key=lambda path: path.split("/")
        ):
            above = _nearest(path, planned)
            cover = self._cover(path, above)
            if cover is not above or (path in mounts and above is Cover.OVERLAY):
                planned[path] = cover
        return tuple(planned.items())

    def _cover(self, path: str, above: Cover) -> Cover:
        if path in self.protected:
            return Cover.OVERLAY
        if path in self.kept:
            return Cover.REAL
        if above is Cover.OVERLAY and not os.path.isdir(path):  # one file, mounted by itself
            return Cover.READ_ONLY
        return above


def protected_directories(
    program: Path, arguments: Sequence[str] = (), extra: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """The directories whose files a run of `program` could change.

    Its project's root, the working directory, the home directory, what its arguments name (`--out
    DIR`, `--data=FILE`; what does not exist yet counts as its nearest directory), what its own
    source names by an absolute path, `extra`, and where links near the top of any of these lead
    (`checkpoints -> /mnt/big`).
    """
    named = [value for argument in arguments for value in (argument, argument.partition("=")[2])]
    places = [_nearest_directory(Path(value)) for value in named if _names_a_place(value)]
    places += _written_in(program)
    found = (_project_root(program.resolve()), Path.cwd(), Path.home(), *places, *extra)
    linked = [target for directory in dict.fromkeys(found) for target in _linked(directory)]
    return tuple(dict.fromkeys((*found, *linked)))


def _written_in(program: Path) -> list[Path]:
    """The directories of absolute paths in the text of `program`; no shared ones (`/tmp`)."""
    try:
        text = program.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    others = (*PROGRAMS, *SYSTEM)
    named = {path for path in _ABSOLUTE.findall(text) if _names_a_place(path)}
    found = [_nearest_directory(Path(path)) for path in sorted(named) if not _is_in(others, path)]
    return [each for each in found if str(each) not in SHARED]


def _linked(directory: Path, depth: int = LINK_DEPTH) -> list[Path]:
    """Directories that links in `directory` lead to, and links `depth` levels down."""
    try:
        entries = list(islice(os.scandir(directory), LINK_ENTRIES))
    except OSError:
        return []
    found: list[Path] = []
    for entry in entries:
        if entry.is_symlink():
            target = os.path.realpath(entry.path)
            found += [] if _is_in(PROGRAMS, target) else [_nearest_directory(Path(target))]
        elif depth > 1 and entry.is_dir():
            found.extend(_linked(Path(entry.path), depth - 1))
    return found


def _project_root(program: Path) -> Path:
    marks = (".git", "pyproject.toml", "setup.py", "setup.cfg")
    folders = list(program.parents)
    return next(
        (folder for folder in folders if any((folder / mark).exists() for mark in marks)),
        folders[0],
    )


def _names_a_place(value: str) -> bool:
    return (
        "/" in value
        and "\0" not in value
        and "://" not in value
        and len(value) < os.pathconf("/", "PC_PATH_MAX")
    )


def _nearest_directory(path: Path) -> Path:
    """`path` or the directory above it that exists; the working directory in place of "/"."""
    path = path.expanduser().absolute()
    found = next(folder for folder in (path, *path.parents) if os.path.isdir(folder))
    return Path.cwd() if found == Path("/") else found


def _directories(paths: Iterable[Path]) -> tuple[str, ...]:
    real = (os.path.realpath(path) for path in paths)
    return tuple(dict.fromkeys(path for path in real if os.path.isdir(path)))


def _is_in(tops: Iterable[str], path: str) -> bool:
    return any(path == top or path.startswith(top + "/") for top in tops)


def _nearest(path: str, planned: dict[str, Cover]) -> Cover:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        if path in planned:
            return planned[path]
    return Cover.REAL
