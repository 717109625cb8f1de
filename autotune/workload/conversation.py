"""What a running program and its controller say to each other between two steps."""

from dataclasses import dataclass
from typing import Protocol

from autotune.workload.samples.delivery import Delivery
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, Sizes, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWindow:
    """Command: go on for at least `seconds` and `steps` optimizer steps, then report a Window."""

    seconds: float
    steps: int = 1
    mode: str = AS_IS


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Command: draw from the training loader from an epoch's start, beside the training, and report
    a Delivery.
    """

    batches: int  # at most so many; with 0 it is only seen what the dataset keeps
    seconds: float  # no further one is begun after so long
    seed: int = 0  # what the order of the samples starts from
    # Every batch of a map-style dataset, and every worker of an iterable one, reads from the same
    # random numbers, so that two runs can be compared.
    still: bool = False
    reseed: bool = False  # workers begin with other seeds of their own; all else is as without
    here: bool = False  # in the training's own process, whatever workers the loader has
    # Names of what making a batch changes, of which it is told what others could read.
    left: tuple[str, ...] = ()
    settings: bool = False  # what samples are made by is told by name too
    only_lengths: bool = False  # nothing is asked but how much the dataset keeps in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Command: go over an epoch of the training loader for at most `seconds`, beside the training,
    keep its largest batches for `LARGEST`, and report Sizes.
    """

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Command: say what the run has been made of (a Seen), and wait for the next command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Command: end the program here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Report: the first optimizer step is done, `startup_seconds` after the program's start."""

    startup_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Report: what was looked for in a window that is not timed (`workload.watches`)."""

    window: Window
    found: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """Report: this program cannot be run in the mode that was asked for, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Report: the program came to its own end after `steps` steps, with the window that was open,
    if any; or its training loop did, after `loop_seconds`, and another has begun. Processes that it
    had started and waited for spent `children_seconds` of processor time.
    """

    steps: int
    window: Window | None
    exit_code: int = 0
    loop_seconds: float | None = None
    children_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """Report: the program raised, after `steps` steps. `kind` is a Failure's kind, `message` its
    last line, `trace` the whole.
    """

    kind: str
    message: str
    trace: str
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Report: what a function that was called in place of a program gave."""

    value: object


Drawing = Draw | Survey
Command = RunWindow | Drawing | Tell | Halt
Report = Ready | Window | Watched | Seen | Delivery | Sizes | Unsupported | Ended | Crashed | Answer


class Halted(BaseException):
    """Ends a program from inside; no Exception, which `except Exception` in a loop would catch."""


class Fault(BaseException):
    """A fault of ours, its cause, inside a program; as `Halted` not to be taken for one of its own
    by an `except Exception` round its step, which would then go on.
    """


class Conversation(Protocol):
    """The program's side of it."""

    def say(self, report: Report) -> None:
        """Tell the controller."""

    def ask(self) -> Command:
        """Wait for what to do next."""
