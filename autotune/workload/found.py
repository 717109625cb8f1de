"""What looks at steps that are not timed have found: plain data that crosses processes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.source.edits import Place

BESIDE, INSIDE = "beside", "inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyLine:
    """A function of the program's own, the line in it that was seen most, and the share of a step
    in which it was the innermost of them.
    """

    # "data" for what a loader without workers runs, "other" for what no phase accounts for,
    # "forward" for methods of modules among that (parts of a model that are called by themselves),
    # `INSIDE` for what a forward pass runs while it is not in torch's own Python, and `BESIDE` for
    # a thread of the program's own that computes meanwhile: its share is of processor time.
    phase: str
    path: str
    line: int
    function: str
    share: float
    # Those of its lines that have a notable share, the one that was seen most first.
    lines: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBlock:
    """What one forward pass of a repeated block keeps for backward, but for what goes in and comes
    out, and the seconds that it takes: what computing it again would free, and cost.
    """

    name: str
    freed_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """At a moment of the host's clock (s): the innermost function of the program, and its line."""

    moment: float
    path: str
    line: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """Looks at forward passes, and torch's time line of the operations meanwhile."""

    trace: bytes  # the profiler's JSON, compressed by zlib
    marked: float  # when the last event called `MARK` begins in it, by the host's clock
    looks: int  # how many there were in all
    inside: tuple[Look, ...]  # those that found it in a forward pass and not in torch's own Python


MARK = "autotune: it is now"


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtPlace:
    """What the program does at a line; None where none of its own was on the stack."""

    place: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedAngle(_AtPlace):
    """An angle that a sine or a cosine was given, and how far apart its format has the next."""

    radians: float
    step_radians: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedTarget(_AtPlace):
    """Numbers that predictions in a short number format were compared with: their size (root mean
    square), by how much those of a batch differ (standard deviation), and how far apart the format
    lets predictions of that size lie.
    """

    size: float
    spread: float
    step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedNumber(_AtPlace):
    """The largest number in a short format that was made a whole one, and how far apart the format
    lets those of its size lie.
    """

    size: float
    step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedChoice(_AtPlace):
    """A choice of the largest or smallest by numbers that were computed in a short format, of none
    that are learnt (the nearest points, say): the share of those chosen that lie closer to the
    first that was not than that format tells apart. Or, with a `limit` that they are compared with,
    of those on its rarer side the share that lie as close to it.
    """

    untold: float
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedChance(_AtPlace):
    """The logarithm of a probability that was computed in a short format, or of uniform random
    numbers that were `drawn` in it.
    """

    drawn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedMatrix(_AtPlace):
    """The `decomposition` of a matrix that a product gave in a short format."""

    decomposition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedChange(_AtPlace):
    """What is added to the model's input before it is rounded to a short format, as a share of it
    (of root mean squares), the largest of all steps, and how far apart the format lets numbers lie,
    as a share of them; it is the `turn`-th in each step of its `place`.
    """

    turn: int
    share: float
    step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOn(_AtPlace):
    """What an earlier step has left in a short format, and a later one adds to there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedInput(_AtPlace):
    """A column of what is rounded to a short format before a product, and is neither learnt nor
    computed of what is: how large it is (root mean square), by how much it differs within a batch
    (standard deviation), how far apart the format lets numbers of its size lie, and how much noise
    rounding adds, as a share of `spread`.
    """

    size: float
    spread: float
    step: float
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """What was rounded furthest; None where there was nothing of the kind in a short format.
    `short` says whether any operation was given numbers in one.
    """

    short: bool = True
    angle: RoundedAngle | None = None
    target: RoundedTarget | None = None
    number: RoundedNumber | None = None
    choice: RoundedChoice | None = None
    chance: RoundedChance | None = None
    matrix: RoundedMatrix | None = None
    changes: tuple[RoundedChange, ...] = ()
    carried: CarriedOn | None = None
    given: RoundedInput | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """Whether zeros in the place of denormal numbers make a result another (`differs`), the
    largest number in the first such, and its place.
    """

    place: Place | None = None
    size: float = 0.0
    differs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """How far what a model gives with a setting lies `apart` from what it gives as it is, and how
    far two calls of it lie apart by chance (random numbers of its own, weights moved as far as the
    setting may round them), both as shares of what it gives (root mean squares). By which share it
    calls more of torch's functions for that, or fewer, where it is not by chance: a loop of its own
    ends by its numbers.
    """

    apart: float
    by_chance: float
    more_calls: float = 0.0

    def is_another(self, *, most: float, times_chance: float) -> bool:
        """Whether it is another: by more than `most`, and so many times as far as by chance."""
        return self.apart > max(most, times_chance * self.by_chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What models give of the same batch with their weights channels last, and under autocast to a
    dtype by its name; None where that could not be seen.
    """

    channels_last: Apart | None = None
    formats: Mapping[str, Apart | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """How many operations of torch's a step starts, and which function of the program's own starts
    most of them outside of the backward pass: its file and a line of it, its name, and its share.
    """

    per_step: float
    place: Place | None = None
    function: str = ""
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Denormals:
    """Numbers too small for the whole precision of their format, each of which a CPU takes many
    times as long to compute with.

    `results` is their share of what the operations of a step give. `coming` is the share of the
    optimizer's running averages that will be such numbers from `after_steps` further steps on,
    since their gradients have been zero for long (0 steps: they are by now); a step then takes so
    many `times_as_long` as with zeros in their place, 1 where it was not longer each time, None
    where that could not be timed.
    """

    results: float = 0.0
    coming: float = 0.0
    after_steps: int = 0
    times_as_long: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Floating point operations of products and convolutions, and of convolutions alone."""

    flops: int
    convolution_flops: int
    # Some of them compute activations again in the backward pass, or gradients that are to have
    # gradients.
    recomputed: bool = False
    unknown: tuple[str, ...] = ()  # operators that multiply and are not counted, the frequent first


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Bytes that lie between forward and backward at the most, and gradients after a step."""

    activation_bytes: int
    gradient_bytes: int
    blocks: tuple[SavedBlock, ...] = ()  # of the first model that has any, in its order
