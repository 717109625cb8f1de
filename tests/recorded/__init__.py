"""Runs recorded on a real GPU, which the ordinary tests replay where there is none.

A recording is what `python -m tests.bench.gpu` writes for each planted program, for its searches
and for memory, copied here as it is (`cp reports/h200/{planted-*,rivals-*-ours,memory}.json
tests/recorded/`), never edited but for the checkout's folder in paths. Of a planted program:

    part, name    of the measurement
    machine       the device, driver, versions and cores that it was made on
    measured
      fault       what was planted
      expected    what a diagnosis must say: `first` (one of these), `absent` (none of these)
      result      the whole result.json of `autotune profile`: every window with its phases and
                  losses, ceilings, memory statistics, telemetry and the summary of the trace
      raw         the trace and the readings that these were made from, of some

Of a search `result` is that of `autotune search`, with every turn of its verdict. Of memory, every
size that was tried, with its peak.
"""

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import UsageError
from autotune.outputs.document import from_document
from autotune.result import Result
from tests.bench.gpu_planted import Expected
from tests.bench.gpu_raw import Raw

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One recorded run: what was planted, what must be said of it, and all that was measured; `raw`
    is what the device itself said, where that was kept.
    """

    name: str
    expected: Expected
    result: Result
    raw: Raw | None = None

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Recording":
        """The recording that `document` is.

        Raises:
            ValueError: it was rehearsed, failed, or was made without a GPU.
        """
        name = document["name"]
        if "rehearsal" in document or "failed" in document:
            raise ValueError(f"{name} was rehearsed or failed: it records no run")
        if document["machine"]["device"] != "cuda":
            raise ValueError(f"{name} was made on {document['machine']['device']}, and not a GPU")
        measured = document["measured"]
        expected = {key: tuple(value) for key, value in measured["expected"].items()}
        return cls(
            name=name,
            expected=Expected(**expected),
            result=from_document(measured["result"]),
            raw=Raw(**measured["raw"]) if "raw" in measured else None,
        )


PATHS = sorted(FOLDER.glob("planted-*.json"))
SEARCHES = sorted(FOLDER.glob("rivals-*-ours.json"))
MEMORY = sorted(FOLDER.glob("memory.json"))


def recordings(paths: Sequence[Path] = PATHS) -> list[Recording]:
    """Every recording that there is; a file that is none keeps the others from no test."""
    found = []
    for path in paths:
        with suppress(ValueError, UsageError):
            found.append(read(path))
    return found


def read(path: Path) -> Recording:
    """The recording in a file.

    Raises:
        ValueError: as `Recording.of`: the bench also writes down what failed.
        UsageError: its result is of another version.
    """
    return Recording.of(json.loads(path.read_text()))


def are_alike(one: Any, other: Any) -> bool:
    """Whether two documents say the same; floats to nine digits, since Python 3.12 sums them to
    more than 3.11 does.
    """
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(are_alike, one, other))
    return bool(one == other)


RECORDED_RAW = [each for each in recordings() if each.raw is not None]
