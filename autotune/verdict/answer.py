"""The answer to a search, and what was measured of the program that is handed back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotune.knobs.knob import Config
from autotune.measurement.ratios import PAIR_SCATTER, Ratio
from autotune.verdict.clear import ROUGH, WORTH_MORE_TIME
from autotune.verdict.parity import Parity
from autotune.verdict.validations import Validations

# What slows validations down, the likeliest first: they compute more at a time than steps do.
SLOWING = ("threads", "compile", "channels_last", "blas_threads", "precision")
FAR_APART = 1.0  # of the loss: who is that far away does not train what was meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The emitted program itself, run and timed beside the baseline; `reason` says why where it was
    not, or what is wrong with it. `parity` is its own where not it was judged, but the settings.
    """

    samples_per_second: float | None
    speedup: Ratio | None
    settings_observed: bool
    reason: str = ""
    parity: Parity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer. `outcome` is "faster", "no_gain" or "failed"; `reason` is one sentence.

    `config` is what is recommended, empty unless "faster". `turns` keeps the raw windows that the
    interval was computed from: for each contestant ("baseline", "tuned", "delivered") its samples
    and seconds in order, so that anyone can compute it again; of programs that take memory anew it
    is wider by what `faults.unknown_of` says of their windows, and its lower end counts what
    `faults.calm_share` says of the profile's. `rounds` is how many of them each set
    of fresh processes took, in order, and `left_out` how many further turns were spoilt because
    another program had the processors. `scatter` is what the log-ratio of two processes was
    expected to scatter by. `passed_over` says what was faster still, but another training;
    `suspect` is the setting that is likeliest to make that, or what was judged, another.
    `too_short` says that the program came to its end before enough turns could be taken. `through`
    says what was seen of the tuned program when its epochs are over, and `breaks` that it fails
    there; `not_reached` are the places in the program's text ("train.py:52") that the steps
    compared there did not come to, though the training may. `validations` is what they come to,
    where enough came in the turns, or else where epochs were cut short; it `slows` where they lose
    more than the steps gain.
    """

    outcome: str
    reason: str
    config: Config
    speedup: Ratio | None
    baseline_samples_per_second: float | None
    tuned_samples_per_second: float | None
    delivered: Delivered | None
    parity: Parity | None
    turns: Mapping[str, tuple[tuple[int, float], ...]]
    rounds: tuple[int, ...] = ()
    left_out: int = 0
    scatter: float = PAIR_SCATTER
    passed_over: str = ""
    suspect: str = ""
    too_short: bool = False
    through: str = ""
    not_reached: tuple[str, ...] = ()
    breaks: bool = False
    validations: Validations | None = None
    slows: bool = False

    @property
    def is_open(self) -> bool:
        """Whether no difference was found where a gain worth having is not excluded."""
        speedup = self.speedup
        between = speedup is not None and speedup.low <= 1 and speedup.high > WORTH_MORE_TIME
        return self.outcome == "no_gain" and between

    @property
    def trains_otherwise(self) -> bool:
        """Whether there is a gain that is not handed back, since it is another training."""
        faster = self.speedup is not None and self.speedup.low > 1
        other = self.parity is not None and self.parity.same_training is False
        return self.outcome == "no_gain" and faster and other

    @property
    def is_withheld(self) -> bool:
        """Whether there is a gain that is not handed back: another training, a program that fails
        later, or validations that take longer than it saves.
        """
        return self.trains_otherwise or self.breaks or self.slows

    @property
    def may_be_allowed(self) -> bool:
        """Whether it trains otherwise, and anyone could want that: a loss that is no number is
        refused anyway.
        """
        apart = self.parity.max_relative_loss_difference if self.parity else None
        return self.trains_otherwise and apart is not None and apart <= FAR_APART

    @property
    def is_rough(self) -> bool:
        """Whether there is a gain, but how much is hardly known."""
        speedup = self.speedup
        return self.outcome == "faster" and speedup is not None and speedup.spans(ROUGH)

    @property
    def is_undecided(self) -> bool:
        """Whether a gain worth having is open, and it was seen, though perhaps by chance, or the
        interval is too wide to speak of none.
        """
        speedup = self.speedup
        if speedup is None or not self.is_open:
            return False
        return speedup.estimate > WORTH_MORE_TIME or speedup.spans(ROUGH)


def held_to(verdict: Verdict, validations: Validations | None) -> Verdict:
    """`verdict` with what its `validations` come to, where these are known: no gain where they lose
    more than the steps gain.
    """
    verdict = replace(verdict, validations=validations)
    if verdict.outcome != "faster" or not validations or validations.whole >= 1:
        return verdict
    return replace(
        verdict,
        outcome="no_gain",
        reason=_slower(verdict, validations),
        config={},
        suspect=next((name for name in SLOWING if name in verdict.config), ""),
        slows=True,
    )


def _slower(verdict: Verdict, validations: Validations) -> str:
    assert verdict.speedup is not None
    kind = "a validation of a few batches" if validations.short else "a validation"
    if validations.between or validations.generates:
        kind = "what the program does now and then between its steps"
    takes = f"{validations.tuned_seconds:.2g} s with them, and {validations.own_seconds:.2g} s"
    return (
        f"The best settings make the steps {verdict.speedup.estimate:.2f}× as fast, but {kind} "
        f"takes {takes} as the program is: with that counted in, {validations.often}, it is "
        f"{validations.whole:.2f}× as fast."
    )
