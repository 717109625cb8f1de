"""The controller's side: one sandbox a search, one layer a run."""

import itertools
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from autotune.errors import MeasurementError
from autotune.measurement.sandbox import landlock, prepared
from autotune.measurement.sandbox.attempt import GROUND, attempt, held_by_others
from autotune.measurement.sandbox.layer import Layer, Way
from autotune.measurement.sandbox.scratch import open_scratch
from autotune.measurement.sandbox.territory import Territory

# Real in any run: they carry what processes share, sockets and shared memory among it.
SHARED_DIRECTORIES = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108


class Sandbox:
    """Keeps the files below some directories as they are while programs run that change them.

    Attributes:
        way: by the kernel's overlays, or by redirection in Python.
        description: what protects the files and where that ends, in a sentence or two for the
            report.
        scratch: this search's own directory; real in every run.
    """

    def __init__(
        self,
        protected: Iterable[Path],
        *,
        kept: Iterable[Path] = (),
        named: Iterable[Path] = (),
        elsewhere: Iterable[Path] = (),
        way: Way | None = None,
        scratch_parent: Path | None = None,
    ) -> None:
        """Find the way that this machine permits, by trying it, or insist on one `way`.

        No run may change `protected` directories (see `protected_directories`), nor those `named`,
        where that may fail (`directories_in_texts`), nor those `elsewhere`, where overlays can keep
        it from that (`other_directories`); those `kept` stay real though they may lie in these.

        Raises:
            MeasurementError: neither way works, or not the one that was insisted on.
        """
        self.scratch, self._lock = open_scratch(scratch_parent)
        self._numbers = itertools.count()
        self._prepared: Path | None = None
        real = [*kept, *SHARED_DIRECTORIES, self.scratch]
        self._territory = Territory.of(protected, real, named=named, elsewhere=elsewhere)
        try:
            self._pattern, self.description = self._choose(way)
        except BaseException:
            self.close()
            raise
        self.way = self._pattern.way

    def _choose(self, way: Way | None) -> tuple[Layer, str]:
        empty = Layer(way=Way.OVERLAY, root=self.scratch, territory=self._territory)
        root = os.geteuid() == 0
        own = () if root else tuple(e for e in self._territory.elsewhere if not held_by_others([e]))
        few = replace(self._territory, elsewhere=own)
        mine = replace(empty, user_namespace=True, territory=few)
        overlays = [
            replace(layer, in_memory=memory)
            for layer in ((empty, mine) if root else (mine,))
            for memory in (False, True)
        ]
        guarded = replace(empty, way=Way.REDIRECT, kernel_guard=True)
        redirects = ([guarded] if landlock.version() else []) + [
            replace(guarded, kernel_guard=False)
        ]
        candidates = [layer for layer in overlays + redirects if way in (None, layer.way)]
        to_try = [self._to_try(layer) for layer in candidates]
        reasons = attempt(to_try)
        for tried in to_try:
            self.discard(tried)
        if "" not in reasons:
            raise MeasurementError(
                f"Your files cannot be protected while the program is measured: {reasons[0]}",
                "Run autotune on a copy of the project, as a user who can write nothing else.",
            )
        chosen = candidates[len(reasons) - 1]
        return chosen, _describe(chosen, "" if chosen.way is way else reasons[0])

    def _to_try(self, layer: Layer) -> Layer:
        new = self._new(layer)
        ground = str(new.root / GROUND)
        territory = replace(layer.territory, protected=(*layer.territory.protected, ground))
        return replace(new, territory=territory)

    def _new(self, pattern: Layer) -> Layer:
        root = self.scratch / f"run-{next(self._numbers)}"
        root.mkdir()
        return replace(pattern, root=root, prepared=self._prepared)

    def layer(self) -> Layer:
        """A layer for one run, above the prepared one if there is one; the run calls `enter`."""
        return self._new(self._pattern)

    def keep_prepared(self, layer: Layer) -> bool:
        """Keep what the live run of `layer` has written so far, as it waits at its first step, for
        the layers after it; whether that was kept: not where it needs too much space, nor by
        another call than a search's first. Every run then prepares for itself.
        """
        if self._prepared is not None or layer.prepared is not None:
            return False
        target = self.scratch / f"prepared-{next(self._numbers)}"
        try:
            prepared.capture(layer, target)
        except OSError:
            prepared.remove_tree(target)
            return False
        self._prepared = target
        return True

    def written(self, layer: Layer) -> frozenset[str]:
        """The files that the live run of `layer` has written so far, below what is protected."""
        return prepared.written(layer)

    def keep_more(self, layer: Layer, paths: Iterable[str]) -> bool:
        """Keep also these files, which the run of `layer` has written since, for the layers after
        it, while no other run is live; whether all of them were kept.
        """
        if self._prepared is None:
            return False
        try:
            prepared.add(layer, self._prepared, paths)
        except OSError:
            return False
        return True

    def forget_prepared(self) -> None:
        """Start the layers from now on from the files as they are.

        For programs that cannot run a second time where they ran before (they insist on making
        their directory).
        """
        self._prepared = None

    def discard(self, layer: Layer) -> None:
        """Throw away what the run of `layer` wrote; its processes must have ended."""
        prepared.remove_tree(layer.root)

    def close(self) -> None:
        """Throw away everything; no layer can be used after it."""
        if self._lock >= 0:
            prepared.remove_tree(self.scratch)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _describe(layer: Layer, refused: str) -> str:
    """What protects the files, for the report; `refused` is why overlays do not."""
    if layer.way is Way.OVERLAY:
        return (
            "The program's files were protected by the kernel: what was written there went to an "
            f"overlay{' kept in memory' * layer.in_memory}, which was thrown away. "
            "Not protected: /dev/shm, and of /tmp and /var what the program does not name."
        )
    because = f" (overlays did not work here: {refused})" if refused else ""
    start = f"The program's files were protected by redirecting its writes in Python{because}. "
    if layer.kernel_guard:
        return start + (
            "Writes that went round Python, by child programs or compiled libraries, were refused "
            "by the kernel (Landlock)."
        )
    return start + (
        "Writes by child programs and by compiled libraries that open files themselves could not "
        "be caught."
    )
