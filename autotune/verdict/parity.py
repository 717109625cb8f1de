"""Whether two runs trained the same: their losses, step by step, against the noise between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile

from autotune.knobs.knob import Semantics
from autotune.measurement.interleaved.turns import LOSSES_WANTED
from autotune.verdict.chance import FEWEST_STEPS, UNSEEN, Pair, of_course
from autotune.verdict.courses import first_difference, furthest, scatter_ratio

_NOT_FINITE = "Its loss became infinite or not a number."


class Difference(StrEnum):
    """By what two trainings are told apart."""

    NOT_FINITE = "not finite"  # a loss that is no number
    STEP = "step"  # one loss is another, where the settings promise the same numbers
    COURSE = "course"  # the smoothed losses part by more than their noise explains
    SCATTER = "scatter"  # losses scatter more from step to step


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Whether both trained the same: smoothed losses against a band from their own noise.

    `max_relative_loss_difference` is the largest relative difference of the smoothed curves and
    `band` what it may be there; where the curves part, both are of the step at which they exceed
    the band most. `same_training` is None where it cannot be said, and `reason` says why; it also
    says what differs. `skipped_steps` are those that a GradScaler left out of the tuned training,
    as far as it was compared. `is_another` says that the settings make another training of it, as
    was allowed: no losses are compared then, nor kept. `difference` is by what they were told
    apart, whatever controls then said of it.
    """

    same_training: bool | None
    max_relative_loss_difference: float | None
    band: float | None
    steps: int
    baseline_losses: tuple[float, ...] = ()
    tuned_losses: tuple[float, ...] = ()
    reason: str = ""
    skipped_steps: int = 0
    is_another: bool = False
    difference: Difference | None = None

    @property
    def parted_by(self) -> float:
        """How many times their band the losses part by, infinite where it is not that."""
        parted = may_be_the_seeds(self)
        if not (parted and self.band and self.max_relative_loss_difference):
            return math.inf
        return self.max_relative_loss_difference / self.band


def parity(
    baseline: Sequence[float],
    tuned: Sequence[float],
    semantics: Semantics,
    *,
    controls: Sequence[Sequence[float]] = (),
    pairs: Sequence[Pair] = (),
    late: int = 0,
) -> Parity:
    """Compare the losses of two runs with the same seed, step by step from their first step on; nan
    where a step has none. Beyond `LOSSES_WANTED`, of which not every step's is read, they are only
    to be numbers; what one has more than the other is left out.

    The settings may change what `semantics` say. `controls` are losses of the program as it is
    where chance alone is another: its weights moved by `NUDGE`, its samples read with other random
    numbers. One that ended earlier is compared as far as it came, if the losses part by then; with
    none that did, losses that part are another training. `pairs` are those of both with other
    seeds. By up to as many steps as are `late`, which a GradScaler left out of the tuned training
    beyond the baseline's own, its course may lag.
    """
    steps = min(len(baseline), len(tuned), LOSSES_WANTED)
    undecided = Parity(
        same_training=None,
        max_relative_loss_difference=None,
        band=None,
        steps=steps,
        baseline_losses=tuple(baseline[:steps]),
        tuned_losses=tuple(tuned[:steps]),
    )
    own_finite, finite = (all(map(math.isfinite, each)) for each in (baseline, tuned))
    if semantics is Semantics.DIFFERENT:
        return _another(broken=own_finite and not finite)
    if not own_finite:
        reason = "The program's own losses were not all seen as finite numbers."
        return replace(undecided, reason=reason)
    if not finite:
        broken = Difference.NOT_FINITE
        return replace(undecided, same_training=False, reason=_NOT_FINITE, difference=broken)
    if steps < FEWEST_STEPS:
        reason = f"{steps} steps are too few to compare; {FEWEST_STEPS} are needed."
        return replace(undecided, reason=reason)
    return _compared(undecided, semantics, controls, pairs, late)


def _compared(
    undecided: Parity,
    semantics: Semantics,
    controls: Sequence[Sequence[float]],
    pairs: Sequence[Pair],
    late: int,
) -> Parity:
    """`undecided`, decided by its losses, which are finite numbers and enough of them."""
    first, second = undecided.baseline_losses, undecided.tuned_losses
    largest, band = furthest(first, second, late)
    ran = [tuple(takewhile(math.isfinite, each[: undecided.steps])) for each in controls]
    kept = _kept(semantics, first, second, ran)
    difference, reason = _told_apart(first, second, kept, largest, band)
    same, said = _of_controls(difference, first, second, ran, pairs, late)
    return replace(
        undecided,
        same_training=same,
        max_relative_loss_difference=largest,
        band=band,
        reason=f"{reason} {said}".strip(),
        difference=difference,
    )


def _another(*, broken: bool) -> Parity:
    """Of settings that make another training: its steps are not those of the program as it is."""
    return Parity(
        same_training=False if broken else None,
        max_relative_loss_difference=None,
        band=None,
        steps=0,
        reason=_NOT_FINITE if broken else "It is another training, as was allowed.",
        is_another=True,
        difference=Difference.NOT_FINITE if broken else None,
    )


def may_be_chance(found: Parity) -> bool:
    """Whether controls could say more than that it is another training."""
    told = (Difference.COURSE, Difference.STEP)
    return found.same_training is False and found.difference in told


def may_be_the_seeds(found: Parity) -> bool:
    """Whether runs with other seeds could."""
    return found.same_training is False and found.difference is Difference.COURSE


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


def _told_apart(
    first: Sequence[float],
    second: Sequence[float],
    semantics: Semantics,
    largest: float,
    band: float,
) -> tuple[Difference | None, str]:
    """By what two courses of losses are told apart, None where they are not; and in words."""
    if semantics is Semantics.IDENTICAL and (step := first_difference(first, second)) is not None:
        return (
            Difference.STEP,
            f"Step {step} has another loss, where the settings promise the same numbers.",
        )
    if largest > band:
        parted, explained = f"{100 * largest:.1f} %", f"{100 * band:.1f} %"
        said = f"The losses part by {parted}, where noise explains {explained}."
        return Difference.COURSE, said
    if (times := scatter_ratio(first, second)) is not None:
        said = f"The loss scatters {times:.2f} times as much from step to step"
        return Difference.SCATTER, f"{said}, as by smaller batches, coarser rounding or chance."
    return None, ""


def _of_controls(
    difference: Difference | None,
    first: Sequence[float],
    second: Sequence[float],
    controls: Sequence[Sequence[float]],
    pairs: Sequence[Pair],
    late: int,
) -> tuple[bool | None, str]:
    """Whether it is the same training by what controls say as well, and what that is."""
    if not controls:
        return difference is None, ""
    if difference is Difference.COURSE:
        return of_course(first, second, controls, pairs, late)
    step = first_difference(first, second) or 0
    unseen = difference is Difference.STEP and all(len(each) < step for each in controls)
    return difference is None, UNSEEN if unseen else ""
