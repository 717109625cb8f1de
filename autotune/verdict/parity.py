"""Whether two runs trained the same: their losses, step by step, against the noise between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from statistics import fmean

from autotune.knobs.knob import Semantics
from autotune.measurement.losses import LOSSES_WANTED

_PART, _STEP = "The losses part", "Step "
_CHAOTIC = (
    "Chance alone (rounding, other random numbers) takes this training about as far: whether it is "
    "the same cannot be told by its losses."
)
_UNSEEN = (
    "How far chance alone takes this training was not seen: whether it is the same cannot be told."
)
FEWEST_STEPS = 20
# The same numbers: another order of additions moves the last digits, and training makes more of it
# with every step.
EXACT_STEPS = 5
EXACT_TOLERANCE = 1e-4

# Curves are smoothed over a tenth of the steps, so that the band sees a course and not single
# batches.
SMOOTHED_SHARE = 0.1
SMOOTHED_STEPS = 5

# The band, chosen on five small trainings of 50 and 200 steps, 16 seeds each. Another dropout
# stream or rounding was called another training in 1 of 320. After 200 steps three times the
# learning rate was found in 77 of 80, half the batch in 73, half of the data in 16: as long as a
# model has not seen its data several times, its loss does not tell how much of it there is.
BAND = 0.05  # of the loss, or of all that was learnt where that is less
LEAST_BAND = 0.01  # of the loss, where nothing was learnt
BAND_ERRORS = 5.0  # of the smoothed difference; many, as weights drift apart from step to step
FLOOR = 0.1  # of the first loss: near zero, differences are relative to this

# Where a GradScaler left out steps, the course may be late by as many: by so much as the program's
# own moves in them, over so many steps around or so many widths. Of 40 simulated courses of 150
# steps that lagged by 3, 25 to 40 were refused without this and 0 with it; of 40 steps 40 and up to
# 23, the more the losses scatter. Three quarters of the learning rate were found as before.
LAG_STEPS, LAG_WIDTHS = 15, 2

# Some trainings are taken apart by rounding alone, or by other random numbers in reading samples,
# which other workers have. Where weights moved by this share of themselves (some units in the last
# place of float32), or such numbers, take the losses at least half as far, what parts them may be
# chance, and nothing is said: neither that it is the same training nor that it is another. Half was
# chosen, not measured.
NUDGE = 1e-6
TIMES_BY_CHANCE = 2.0

# Another batch size shows in the scatter from step to step (a half scatters 1.41 times as much)
# before it shows in the course. Pitman and Morgan's test of two paired variances (Biometrika 31,
# 1939).
SCATTER_RATIO = 1.2
SCATTER_SIGMAS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Whether both trained the same: smoothed losses against a band from their own noise.

    `max_relative_loss_difference` is the largest relative difference of the smoothed curves and
    `band` what it may be there; where the curves part, both are of the step at which they exceed
    the band most. `same_training` is None where it cannot be said, and `reason` says why; it also
    says what differs. `skipped_steps` are those that a GradScaler left out of the tuned training,
    as far as it was compared.
    """

    same_training: bool | None
    max_relative_loss_difference: float | None
    band: float | None
    steps: int
    baseline_losses: tuple[float, ...] = ()
    tuned_losses: tuple[float, ...] = ()
    reason: str = ""
    skipped_steps: int = 0

    @property
    def parted_by(self) -> float:
        """How many times their band the losses part by, infinite where it is not that."""
        parted = self.same_training is False and self.reason.startswith(_PART)
        if not (parted and self.band and self.max_relative_loss_difference):
            return math.inf
        return self.max_relative_loss_difference / self.band


def smooth(values: Sequence[float], width: int) -> tuple[float, ...]:
    """The mean of every `width` consecutive values, in order: `width` - 1 fewer than there were."""
    return tuple(fmean(values[start : start + width]) for start in range(len(values) - width + 1))


def parity(
    baseline: Sequence[float],
    tuned: Sequence[float],
    semantics: Semantics,
    *,
    controls: Sequence[Sequence[float]] = (),
    late: int = 0,
) -> Parity:
    """Compare the losses of two runs with the same seed, step by step from their first step on.

    Args:
        baseline: loss of each optimizer step of the program as it is; nan where it has none. Beyond
            `LOSSES_WANTED`, of which not every step's is read, they are only to be numbers.
        tuned: the same of the run with the settings; what one has more than the other is left out.
        semantics: what the settings may change, the furthest-reaching of them.
        controls: the same of the program as it is where chance alone is another: its weights moved
            by `NUDGE`, its samples read with other random numbers. One that ended earlier is
            compared as far as it came, if the losses part by then; with none that did, nothing
            is said.
        late: steps that a GradScaler left out of the tuned training, beyond those of the baseline's
            own: by up to as many its course may lag.
    """
    steps = min(len(baseline), len(tuned), LOSSES_WANTED)
    first, second = tuple(baseline[:steps]), tuple(tuned[:steps])

    def found(
        same: bool | None, reason: str, largest: float | None = None, band: float | None = None
    ) -> Parity:
        return Parity(
            same_training=same,
            max_relative_loss_difference=largest,
            band=band,
            steps=steps,
            baseline_losses=first,
            tuned_losses=second,
            reason=reason,
        )

    if semantics is Semantics.DIFFERENT:
        return found(None, "The settings train differently, as was allowed.")
    if not all(map(math.isfinite, baseline)):
        return found(None, "The program's own losses were not all seen as finite numbers.")
    if not all(map(math.isfinite, tuned)):
        return found(False, "Its loss became infinite or not a number.")
    if steps < FEWEST_STEPS:
        return found(None, f"{steps} steps are too few to compare; {FEWEST_STEPS} are needed.")
    largest, band = _furthest(first, second, late)
    ran = [tuple(takewhile(math.isfinite, control[:steps])) for control in controls]
    same, reason = _judge(first, second, _kept(semantics, first, second, ran), largest, band)
    if ran and (untold := _why_untold(reason, first, second, ran, late)):
        return found(None, f"{reason} {untold}", largest, band)
    return found(same, reason, largest, band)


def may_be_chance(same: bool | None, reason: str) -> bool:
    """Whether controls could say more than that it is another training."""
    return same is False and reason.startswith((_PART, _STEP))


def _kept(
    semantics: Semantics,
    first: Sequence[float],
    second: Sequence[float],
    controls: Sequence[Sequence[float]],
) -> Semantics:
    """`semantics`; where the losses of a program are others in each run, none after those is the
    same.
    """
    step = first_difference(first, second) or 0
    other = any(first_difference(first[:step], control) is not None for control in controls)
    return Semantics.EQUIVALENT if other and semantics is Semantics.IDENTICAL else semantics


def _why_untold(
    reason: str,
    first: Sequence[float],
    second: Sequence[float],
    controls: Sequence[Sequence[float]],
    late: int,
) -> str:
    """Why it cannot be told that it is another training, by what else the controls say; or ""."""
    if reason.startswith(_STEP):
        step = first_difference(first, second) or 0
        return "" if any(len(control) >= step for control in controls) else _UNSEEN
    if not reason.startswith(_PART) or _scatter_ratio(first, second) is not None:
        return ""
    seen = [each for each in controls if _came_so_far(first, second, len(each), late)]
    if not seen:
        return _UNSEEN
    by_chance = any(_takes_as_far(first, second, each) for each in seen)
    return _CHAOTIC if by_chance else ""


def _came_so_far(first: Sequence[float], second: Sequence[float], steps: int, late: int) -> bool:
    """Whether a control of so many steps came to where the losses part."""
    if steps < FEWEST_STEPS:
        return False
    largest, band = _furthest(first[:steps], second[:steps], late)
    return largest > band


def _judge(
    first: Sequence[float],
    second: Sequence[float],
    semantics: Semantics,
    largest: float,
    band: float,
) -> tuple[bool, str]:
    if semantics is Semantics.IDENTICAL and (step := first_difference(first, second)) is not None:
        return (
            False,
            f"{_STEP}{step} has another loss, where the settings promise the same numbers.",
        )
    if largest > band:
        parted, explained = f"{100 * largest:.1f} %", f"{100 * band:.1f} %"
        return False, f"{_PART} by {parted}, where noise explains {explained}."
    if (times := _scatter_ratio(first, second)) is not None:
        return (
            False,
            f"The loss scatters {times:.2f} times as much from step to step: another batch size?",
        )
    return True, ""


def first_difference(first: Sequence[float], second: Sequence[float]) -> int | None:
    """The first of the first steps, counted from 1, whose losses are not the same number; of those
    that both have.
    """
    pairs = zip(first[:EXACT_STEPS], second, strict=False)
    for step, (a, b) in enumerate(pairs, 1):
        if not math.isclose(a, b, rel_tol=EXACT_TOLERANCE, abs_tol=EXACT_TOLERANCE * abs(first[0])):
            return step
    return None


def _width(steps: int) -> int:
    return max(SMOOTHED_STEPS, round(SMOOTHED_SHARE * steps))


def _furthest(first: Sequence[float], second: Sequence[float], late: int) -> tuple[float, float]:
    """How far apart the smoothed curves are, and may be, where they exceed that most.

    Where they never do, it is where they are furthest apart. What `late` steps explain is no
    distance.
    """
    width = _width(len(first))
    ours, theirs = smooth(first, width), smooth(second, width)
    learnt = max(ours) - min(ours)
    floor = FLOOR * abs(ours[0]) or math.ulp(1.0)
    reach = max(LAG_STEPS, LAG_WIDTHS * width)
    errors = _errors([b - a for a, b in zip(first, second, strict=True)], width)
    apart: list[tuple[float, float]] = []
    for step, (a, b, error) in enumerate(zip(ours, theirs, errors, strict=True)):
        before, after = max(0, step - reach), min(step + reach, len(ours) - 1)
        lag = late * (ours[before] - ours[after]) / max(1, after - before)
        explained = min(max(b - a, min(0.0, lag)), max(0.0, lag))
        scale = max(abs(a), floor)
        tolerated = min(BAND, max(LEAST_BAND, BAND * learnt / scale))
        apart.append((abs(b - a - explained) / scale, max(tolerated, BAND_ERRORS * error / scale)))
    worst = max(apart, key=lambda each: each[0] / each[1])
    return worst if worst[0] > worst[1] else max(apart)


def _takes_as_far(
    first: Sequence[float], second: Sequence[float], control: Sequence[float]
) -> bool:
    """Whether the smoothed curve of `control` gets at least half as far from the first as the
    second does, in the steps that it has.
    """
    steps = len(control)
    ours, theirs, chance = (
        smooth(each[:steps], _width(steps)) for each in (first, second, control)
    )
    apart, by_chance = (
        max(abs(b - a) for a, b in zip(ours, other, strict=True)) for other in (theirs, chance)
    )
    return apart <= TIMES_BY_CHANCE * by_chance


def _errors(differences: Sequence[float], width: int) -> list[float]:
    """Standard error of each smoothed difference, from the scatter of the steps around it."""
    jumps = [(b - a) ** 2 / 2 for a, b in pairwise(differences)]
    starts = range(len(differences) - width + 1)
    around = (jumps[max(0, start - width) : start + 2 * width] for start in starts)
    return [math.sqrt(fmean(near) / width) for near in around]


def _scatter_ratio(first: Sequence[float], second: Sequence[float]) -> float | None:
    """How much more the second scatters from step to step, None where that may be chance."""
    ours, theirs = ([b - a for a, b in pairwise(each)] for each in (first, second))
    sums = [a + b for a, b in zip(ours, theirs, strict=True)]
    gaps = [b - a for a, b in zip(ours, theirs, strict=True)]
    size = math.sqrt(math.fsum(s * s for s in sums) * math.fsum(g * g for g in gaps))
    own = math.fsum(a * a for a in ours)
    if size == 0 or own == 0:
        return None
    likeness = math.fsum(s * g for s, g in zip(sums, gaps, strict=True)) / size
    sigmas = math.atanh(max(-0.999999, min(0.999999, likeness))) * math.sqrt(len(ours) - 3)
    times = math.sqrt(math.fsum(b * b for b in theirs) / own)
    beyond = max(times, 1 / times if times else math.inf) > SCATTER_RATIO
    return times if beyond and abs(sigmas) > SCATTER_SIGMAS else None
