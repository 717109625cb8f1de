"""What runs that are not timed have said of a knob's values."""

from collections.abc import Callable
from dataclasses import dataclass

from autotune.knobs.knob import Config, Value
from autotune.measurement.processes.process import ProcessRun
from autotune.profiling.profile import Doubt
from autotune.source.edits import Place
from autotune.source.refusals.settings import Setting

Start = Callable[[Config], ProcessRun]
TOO_LITTLE_TIME = "in the time that the budget has for it: a larger budget has more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vetted:
    """The values of a knob that keep its promise, why the others do not, and what could not be
    found out. Of workers, why a sample `depends` on those that were made before it, whether reading
    leaves what samples are made from as it was (`steady`), the `settings` that it leaves alone, and
    where the program's own functions begin that its steps run.
    """

    values: tuple[Value, ...]
    reason: str = ""
    depends: str = ""
    steady: bool = False
    settings: tuple[Setting, ...] = ()
    running: tuple[Place, ...] = ()
    streams: tuple[str, ...] = ()
    doubt: Doubt | None = None
