"""A first epoch in which the program fills a cache: what comes after it is what counts."""

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from autotune.measurement.benchmark import WARM_WINDOW_SECONDS, WARM_WINDOW_STEPS
from autotune.measurement.processes.process import ProcessRun
from autotune.profiling.profile import FIRST_EPOCH, Doubt
from autotune.workload.window import Window

# A cache gains files with nearly every batch, from the first on; logs and checkpoints do not.
FEWEST_FILES, FILES_PER_STEP = 8, 0.5
# It is full when so many windows in a row have made no file.
QUIET_WINDOWS = 2
# What still makes files after so many epochs keeps no cache of its samples.
EPOCHS_THAT_FILL = 2
# In a folder a cache has several files of one kind; what is alone there may be a checkpoint, from
# which a run would go on.
FEWEST_ALIKE = 3
# A cache that is divided into folders by its files' names is so once, or twice.
DIVISIONS = 2
_DIGEST = re.compile("(?=.*[a-f])[0-9a-f]{16,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Files of a cache, as the program knows them, that it made while it trained its first batches,
    for which it was let go on for `seconds`: no more at the end where it is `full`. Where it has
    `validated` meanwhile too, some may be what that leaves.
    """

    files: tuple[str, ...]
    seconds: float
    full: bool
    validated: bool = False


def fill(
    run: ProcessRun,
    windows: list[Window],
    *,
    made: Callable[[], Iterable[str]],
    limit_seconds: float,
    told: Callable[[], None],
) -> Filled | None:
    """Let a warm run of the program as it is go on for `limit_seconds`, until it makes no more
    files of a cache; None where it makes none, or makes them in every epoch. `made` are those since
    its first step; `told` is called before it goes on, and `windows` gets what follows, so that
    none is lost where it ends.

    Raises:
        RunEnded: it ended or failed meanwhile.
    """
    began = time.monotonic()
    files = cache_of(made())
    if len(files) < max(FEWEST_FILES, FILES_PER_STEP * sum(each.steps for each in windows)):
        return None
    told()
    quiet = 0
    while quiet < QUIET_WINDOWS and time.monotonic() - began < limit_seconds:
        late = epochs_of(run) > EPOCHS_THAT_FILL
        windows.append(run.window(WARM_WINDOW_SECONDS, steps=WARM_WINDOW_STEPS))
        before, files = files, cache_of(made())
        quiet = quiet + 1 if files == before else 0
        if not files or (late and not quiet):
            return None
    seconds = time.monotonic() - began
    validated = any(each.validations for each in windows)
    return Filled(files=files, seconds=seconds, full=quiet == QUIET_WINDOWS, validated=validated)


def epochs_of(run: ProcessRun) -> int:
    """How many epochs its training loader has begun."""
    loader = run.seen().loader
    return loader.epochs if loader else 0


def cache_of(files: Iterable[str]) -> tuple[str, ...]:
    """Those of `files` that have others of their kind beside them, or in many folders beside theirs
    and by other names: what has one name in each folder may be checkpoints, unless a digest names
    the folder (as joblib's, of what a function was given).
    """
    files = tuple(files)
    alike = Counter(map(_folder_and_kind, files))
    folders: dict[tuple[str, str], set[str]] = defaultdict(set)
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for file in files:
        for whole, part in _divided(file):
            folders[whole].add(part)
            names[whole].add(part if _DIGEST.fullmatch(part) else os.path.basename(file))
    divided = {
        whole for whole in folders if min(len(folders[whole]), len(names[whole])) >= FEWEST_FILES
    }
    return tuple(
        sorted(
            file
            for file in files
            if alike[_folder_and_kind(file)] >= FEWEST_ALIKE
            or any(whole in divided for whole, _ in _divided(file))
        )
    )


def _folder_and_kind(file: str) -> tuple[str, str]:
    return os.path.dirname(file), os.path.splitext(file)[1]


def _divided(file: str) -> Iterator[tuple[tuple[str, str], str]]:
    """The folders, with its kind, that may be a divided cache with `file` in it, and in which of
    its parts.
    """
    folder, kind = _folder_and_kind(file)
    for _ in range(DIVISIONS):
        folder, part = os.path.split(folder)
        yield (folder, kind), part


def doubts_of_cache(filled: Filled | None, directory: str) -> tuple[Doubt, ...]:
    """What is to be known of a program that fills a cache of files in its first epoch."""
    if filled is None:
        return ()
    folder, kind = _folder_and_kind(filled.files[0])
    while _DIGEST.fullmatch(os.path.basename(folder)):
        folder = os.path.dirname(folder)
    near = os.path.relpath(folder, directory)
    where = folder if near.startswith("..") else near
    validates = ", or as it validates" if filled.validated else ""
    files = f"It makes files in its first steps{validates} ({len(filled.files)} so far, "
    files += f"such as *{kind} in {where})"
    if filled.full:
        doubt = Doubt(
            name="cache filled",
            evidence=f"{files}: after {filled.seconds:.0f} s it made no more, and what is measured "
            "is what comes then. Where they are a cache of its samples, and not there yet, the "
            "first epoch may take longer.",
        )
    else:
        doubt = Doubt(
            name=FIRST_EPOCH,
            evidence=f"{files}, and went on after {filled.seconds:.0f} s: where later epochs read "
            "them, none of the figures are of those.",
        )
    return (doubt,)
