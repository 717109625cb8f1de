"""Which paths are protected while a program is measured, and which stay real."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

# Below these nothing is a file of the user's: devices, the kernel's own views, sockets of services.
SYSTEM = ("/dev", "/proc", "/sys", "/run")


class Cover(StrEnum):
    """What happens to one path of a mount plan."""

    OVERLAY = "overlay"  # writes go to the scratch layer
    ATTEMPT = "attempt"  # the same where its file system permits it; else it shows through
    REAL = "real"  # the directory itself shows through again
    COPY = "copy"  # of a single file: what is written to it goes to a copy
    READ_ONLY = "read-only"  # cannot be overlaid: writes are refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Territory:
    """Protected directories, and directories among or above them that stay real; absolute and
    without links.

    The nearest of the two above a path decides over it, and protection wins where both name the
    same path. What is `named`, by a text of the project, is protected as well; where its file
    system cannot lie below an overlay it can only be read. `files` are protected by themselves, in
    directories that stay real. `elsewhere` is what no program is known
    to write to: the kernel's overlays protect it too where they can, redirection leaves it alone.
    """

    protected: tuple[str, ...]
    kept: tuple[str, ...]
    named: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()

    @staticmethod
    def of(
        protected: Iterable[Path],
        kept: Iterable[Path],
        *,
        named: Iterable[Path] = (),
        elsewhere: Iterable[Path] = (),
    ) -> "Territory":
        """The territory of those directories, and `named` files, that exist and are not the
        system's.
        """
        named = list(named)
        files = (os.path.realpath(path) for path in named if os.path.isfile(path))
        return Territory(
            protected=_no_system(_directories(protected)),
            kept=_directories([*kept, *(Path(path) for path in SYSTEM)]),
            named=_no_system(_directories(named)),
            files=_no_system(dict.fromkeys(files)),
            elsewhere=_directories(elsewhere),
        )

    def protects(self, path: str) -> bool:
        """Whether writing to `path` (absolute, without links) must not reach it."""
        if path in self.files:
            return True
        while True:
            if path in self.protected or path in self.named:
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
            {*self.protected, *self.named, *self.files, *self.kept, *self.elsewhere, *mounts},
            key=lambda path: path.split("/"),
        ):
            above = _nearest(path, planned)
            cover = self._cover(path, above)
            if cover is not above or (path in mounts and above is not Cover.REAL):
                planned[path] = cover
        return tuple(planned.items())

    def _cover(self, path: str, above: Cover) -> Cover:
        if path in self.protected or path in self.named:
            return Cover.OVERLAY
        if path in self.files:
            return Cover.COPY if above is Cover.REAL else above
        if path in self.kept:
            return Cover.REAL
        if path in self.elsewhere and above is Cover.REAL:
            return Cover.ATTEMPT
        if above is not Cover.REAL and not os.path.isdir(path):  # one file, mounted by itself
            return Cover.READ_ONLY if above is Cover.OVERLAY else Cover.REAL
        return above


def _directories(paths: Iterable[Path]) -> tuple[str, ...]:
    real = (os.path.realpath(path) for path in paths)
    return tuple(dict.fromkeys(path for path in real if os.path.isdir(path)))


def _no_system(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if not is_in(SYSTEM, path))


def is_in(tops: Iterable[str], path: str) -> bool:
    """Whether `path` is one of `tops`, or below it."""
    return any(path == top or path.startswith(top.rstrip("/") + "/") for top in tops)


def _nearest(path: str, planned: dict[str, Cover]) -> Cover:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        if path in planned:
            return planned[path]
    return Cover.REAL
