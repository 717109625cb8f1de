"""Whether two runs trained the same: their losses, step by step, against the noise between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from autotune.knobs.knob import Semantics
from autotune.measurement.losses import LOSSES_WANTED
from autotune.verdict.chance import FEWEST_STEPS, UNSEEN, Pair, of_course
from autotune.verdict.courses import first_difference, furthest, scatter_ratio

_PART, _STEP = "The losses part", "Step "
_NOT_FINITE = "Its loss became infinite or not a number."


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Whether both trained the same: smoothed losses against a band from their own noise.

    `max_relative_loss_difference` is the largest relative difference of the smoothed curves and
    `band` what it may be there; where the curves part, both are of the step at which they exceed
    the band most. `same_training` is None where it cannot be said, and `reason` says why; it also
    says what differs. `skipped_steps` are those that a GradScaler left out of the tuned training,
    as far as it was compared. `is_another` says that the settings make another training of it, as
    was allowed: no losses are compared then, nor kept.
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

    @property
    def parted_by(self) -> float:
        """How many times their band the losses part by, infinite where it is not that."""
        parted = self.same_training is False and self.reason.startswith(_PART)
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
    """Compare the losses of two runs with the same seed, step by step from their first step on.

    Args:
        baseline: loss of each optimizer step of the program as it is; nan where it has none. Beyond
            `LOSSES_WANTED`, of which not every step's is read, they are only to be numbers.
        tuned: the same of the run with the settings; what one has more than the other is left out.
        semantics: what the settings may change, the furthest-reaching of them.
        controls: the same of the program as it is where chance alone is another: its weights moved
            by `NUDGE`, its samples read with other random numbers. One that ended earlier is
            compared as far as it came, if the losses part by then; with none that did, losses
            that part are another training.
        pairs: the same of the program as it is and with the settings, with other seeds.
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

    own_finite, finite = (all(map(math.isfinite, each)) for each in (baseline, tuned))
    if semantics is Semantics.DIFFERENT:
        return _another(broken=own_finite and not finite)
    if not own_finite:
        return found(None, "The program's own losses were not all seen as finite numbers.")
    if not finite:
        return found(False, _NOT_FINITE)
    if steps < FEWEST_STEPS:
        return found(None, f"{steps} steps are too few to compare; {FEWEST_STEPS} are needed.")
    largest, band = furthest(first, second, late)
    ran = [tuple(takewhile(math.isfinite, control[:steps])) for control in controls]
    same, reason = _judge(first, second, _kept(semantics, first, second, ran), largest, band)
    said = _of_controls(reason, first, second, ran, pairs, late) if ran else (same, "")
    return found(said[0], f"{reason} {said[1]}".rstrip(), largest, band)


def _another(*, broken: bool) -> Parity:
    """Of settings that make another training: its steps are not those of the program as it is."""
    return Parity(
        same_training=False if broken else None,
        max_relative_loss_difference=None,
        band=None,
        steps=0,
        reason=_NOT_FINITE if broken else "It is another training, as was allowed.",
        is_another=True,
    )


def may_be_chance(found: Parity) -> bool:
    """Whether controls could say more than that it is another training."""
    return found.same_training is False and found.reason.startswith((_PART, _STEP))


def may_be_the_seeds(found: Parity) -> bool:
    """Whether runs with other seeds could."""
    return found.same_training is False and found.reason.startswith(_PART)


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
    if (times := scatter_ratio(first, second)) is not None:
        return (
            False,
            f"The loss scatters {times:.2f} times as much from step to step: another batch size?",
        )
    return True, ""


def _of_controls(
    reason: str,
    first: Sequence[float],
    second: Sequence[float],
    controls: Sequence[Sequence[float]],
    pairs: Sequence[Pair],
    late: int,
) -> tuple[bool | None, str]:
    """Whether it is the same training by what controls say as well, and what that is."""
    if reason.startswith(_PART):
        return of_course(first, second, controls, pairs, late)
    step = first_difference(first, second) or 0
    unseen = reason.startswith(_STEP) and all(len(control) < step for control in controls)
    return not reason, UNSEEN if unseen else ""
