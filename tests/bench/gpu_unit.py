"""One measurement of the GPU's bench, and how it is to be made."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "gpu_programs"
ROOT = Path(__file__).parents[2]
RIVAL = "pytorch-autotune"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How measurements are made; a rehearsal only runs the code, with sizes that mean nothing."""

    rehearse: bool = False
    fresh: bool = False
    rounds: int = 1
    budget: str = "60s"
    rival_budget: str = "fast"
    work: Path = field(default_factory=Path)

    def within(self, folder: Path) -> "Setting":
        """The same, with `folder` to work in."""
        return replace(self, work=folder)


def apart(measure: Callable[[Setting], dict[str, Any]], setting: Setting) -> dict[str, Any]:
    """`measure` in a process of its own, whose hold on the GPU ends with it."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
        return process.submit(measure, setting).result()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A measurement with a file of its own; `seconds` is about what it takes on a GPU, an
    estimate.
    """

    part: str
    name: str
    seconds: float
    measure: Callable[[Setting], dict[str, Any]]
