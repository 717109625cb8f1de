"""One measurement of the GPU's bench, how it is to be made, and where its answer is kept."""

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "gpu_programs"
ROOT = Path(__file__).parents[2]
RIVAL = "pytorch-autotune"
AS_IT_IS = "as it is"  # a program without a setting of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How measurements are made; a rehearsal only runs the code, with sizes that mean nothing.

    Attributes:
        rounds: runs of each contestant; None takes as many as each workload is meant for.
        budget: of each search of autotune's; None goes by what the rival's took.
        rival_budget: of pytorch-autotune's searches: "fast", "balanced" or "max".
        work: a folder to work in, gone afterwards.
        results: the folder of the answers.
    """

    rehearse: bool = False
    fresh: bool = False
    rounds: int | None = None
    budget: str | None = None
    rival_budget: str = "fast"
    work: Path = field(default_factory=Path)
    results: Path = field(default_factory=Path)

    def within(self, work: Path, results: Path) -> "Setting":
        """The same, with these folders."""
        return replace(self, work=work, results=results)

    def path(self, name: str) -> Path:
        """The file of the measurement `name`."""
        return self.results / f"{name}.json"

    def measured(self, name: str) -> dict[str, Any] | None:
        """What the measurement `name` gave; None where it has not been made, or only rehearsed."""
        if not self.path(name).exists():
            return None
        document = json.loads(self.path(name).read_text())
        if "rehearsal" in document and not self.rehearse:
            return None
        measured: dict[str, Any] | None = document.get("measured")
        return measured

    def needed(self, name: str) -> dict[str, Any]:
        """As `measured`, of what the one that is being made needs.

        Raises:
            RuntimeError: it has not been made.
        """
        measured = self.measured(name)
        if measured is None:
            raise RuntimeError(f"{name} has not been measured")
        return measured

    def has_failed(self, name: str) -> bool:
        """Whether the measurement `name` was begun, and failed."""
        path = self.path(name)
        return path.exists() and "failed" in json.loads(path.read_text())


def apart(measure: Callable[[Setting], dict[str, Any]], setting: Setting) -> dict[str, Any]:
    """`measure` in a process of its own, whose hold on the GPU ends with it."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
        return process.submit(measure, setting).result()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A measurement with a file of its own.

    Attributes:
        seconds: about what it takes on a GPU; an estimate.
        needs: the measurements whose answers it starts from.
    """

    part: str
    name: str
    seconds: float
    measure: Callable[[Setting], dict[str, Any]]
    needs: tuple[str, ...] = ()
