"""What a forked process can be asked to do: plain data that crosses processes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autotune.knobs.knob import Value
from autotune.measurement.sandbox import Layer
from autotune.workload.program.script import Program
from autotune.workload.seen import LoaderKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run: a program, set up by a Config, in a sandbox (`layer`; None leaves the files open).

    `objects` is a pickled function (by cloudpickle) that is called with the config in the place of
    a script; with `injected` it trains as it is, and the config is had at torch's seams, as a
    script's is. `nudge`, `stream`, `reorder`, `reseed`, `alike` and `epoch_batches` are the
    Setup's. Where it is `littered`, new memory begins with numbers that are not zero. One that
    `compiles` may take long to its first step. With `phases` its windows say what
    their time was spent on.
    """

    program: Program
    config: Mapping[str, Value] = field(default_factory=dict)
    training_loader: LoaderKey | None = None
    passed_loops: int = 0
    time_first: tuple[str, ...] = ()
    seed: int = 0
    layer: Layer | None = None
    objects: bytes = b""
    injected: bool = False
    nudge: float = 0.0
    stream: int = 0
    reorder: bool = False
    reseed: int = 0
    alike: bool = False
    epoch_batches: int = 0
    littered: bool = False
    compiles: bool = False
    phases: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function to be called in a fresh process, with its arguments; what it returns comes back as
    an Answer.
    """

    function: Callable[..., object]
    arguments: tuple[object, ...] = ()
