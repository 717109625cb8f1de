"""How fast each configuration should be: a model of the training loop with priors, refitted to what
the trials measured.

What `trials/loop.py` does not know of the loop, and the factors by which settings change phases, of
which the priors are the knobs' expectations, are fitted at once to the logarithms of the measured
rates (Gauss-Newton to the maximum of the posterior, its curvature for the uncertainty: Laplace's
approximation; MacKay, Information Theory, Inference and Learning Algorithms, ch. 27).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.knobs.knob import Expectation, Value
from autotune.trials.loop import PHASES, STRUCTURE, Array, Costs, Loop, Places, prior_of

# Shares of phases are wrong by 10 %.
PHASES_SD = 0.1
LEVEL_SD = 0.3  # the machine's speed, between the profile and a trial
# What the model's form gets wrong, as scatter of the logarithm.
MISFIT = 0.1

FITTING_STEPS = 12
LONGEST_FITTING_STEP = 0.5
DIFFERENCE = 1e-3

_RATE = "rate"  # what is no phase's: the machine's speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A candidate, by its place, that was timed: the logarithm of its rate, and the scatter of
    that.
    """

    place: int
    log_rate: float
    sd: float


class PerformanceModel:
    """Rates of `candidates`, in logarithms of samples per second; arguments are those of
    `Planner`, with candidates as whole configurations.
    """

    def __init__(
        self,
        costs: Costs,
        own: Mapping[str, Value],
        candidates: Sequence[Mapping[str, Value]],
        expected: Iterable[tuple[tuple[str, Value], Expectation]],
    ) -> None:
        self._loop = Loop(costs, own, candidates)
        self._of_loop = prior_of(costs)
        # What multiplies the rate, or the seconds of a phase, and where.
        effects = [
            (_RATE, (0.0, LEVEL_SD), np.ones(len(candidates))),
            *((phase, (0.0, PHASES_SD), np.ones(len(candidates))) for phase in PHASES),
            *(
                (
                    expectation.phase,
                    (expectation.log_mean, expectation.sd),
                    np.array([each.get(name) == value for each in candidates], dtype=float),
                )
                for (name, value), expectation in expected
                if name not in STRUCTURE
            ),
        ]
        phases, priors, masks = zip(*effects, strict=True)
        prior = np.array([*self._of_loop.values(), *priors])
        self._mean, self._scatter = prior[:, 0], prior[:, 1]
        self._masks = np.stack(masks, axis=1)
        self._places = {
            phase: [place for place, each in enumerate(phases) if each == phase]
            for phase in (_RATE, *PHASES)
        }

    def fit(self, measured: Sequence[Measured]) -> tuple[Array, Array]:
        """Expected log rate of every candidate, and its standard deviation, given `measured`.

        What was measured several times is the better known for it, but what the model's form gets
        wrong of it stays the same.
        """
        places, rates, noise = _pooled(measured)
        weights = 1 / (noise + MISFIT**2)
        unknown = self._fitted(places, rates, weights)
        means, slopes = self._slopes(unknown, self._loop, self._masks)
        covariance = np.linalg.inv(self._curvature(slopes[places], weights))
        variances = np.maximum(0.0, ((slopes @ covariance) * slopes).sum(axis=1))
        # Of what was measured beside the model's expectation, this share is no noise.
        own = MISFIT**2 / (MISFIT**2 + noise)
        means[places] += own * (rates - means[places])
        known = own * noise + (1 - own) ** 2 * variances[places]
        variances += MISFIT**2
        variances[places] = known
        return means, np.sqrt(variances)

    def _fitted(self, places: Places, rates: Array, weights: Array) -> Array:
        loop, masks = self._loop.at(places), self._masks[places]
        prior, mean = np.diag(self._scatter**-2), self._mean
        unknown = mean.copy()
        for _ in range(FITTING_STEPS):
            base, slopes = self._slopes(unknown, loop, masks)
            pull = prior @ (mean - unknown) + (slopes.T * weights) @ (rates - base)
            step = np.linalg.solve(self._curvature(slopes, weights), pull)
            step = np.clip(step, -LONGEST_FITTING_STEP, LONGEST_FITTING_STEP)
            unknown = unknown + step
            if np.abs(step).max() < DIFFERENCE:
                break
        return unknown

    def _curvature(self, slopes: Array, weights: Array) -> Array:
        """Of the negative logarithm of the posterior: the prior's, and what was seen."""
        curvature: Array = np.diag(self._scatter**-2) + (slopes.T * weights) @ slopes
        return curvature

    def _slopes(self, unknown: Array, loop: Loop, masks: Array) -> tuple[Array, Array]:
        """Log rates of a loop's candidates, and their derivatives by each unknown. A factor of a
        phase does wherever it applies what the phase's own seconds do.
        """
        count = len(self._of_loop)
        of = dict(zip(self._of_loop, unknown[:count], strict=True))
        effects = unknown[count:]
        sums = {phase: masks[:, at] @ effects[at] for phase, at in self._places.items()}
        base = loop.log_rates(sums, of)
        slopes = np.empty((len(base), len(unknown)))
        for place, (name, now) in enumerate(of.items()):
            moved = loop.log_rates(sums, {**of, name: now + DIFFERENCE})
            slopes[:, place] = (moved - base) / DIFFERENCE
        slopes[:, count:] = masks
        for phase in PHASES:
            moved = loop.log_rates({**sums, phase: sums[phase] + DIFFERENCE}, of)
            by_phase = (moved - base) / DIFFERENCE
            slopes[:, [count + each for each in self._places[phase]]] *= by_phase[:, None]
        return base + sums[_RATE], slopes


def expected_improvement(means: Array, scatters: Array, best: float) -> Array:
    """By how much each candidate should be better than `best`, being worse counting as nothing
    (Jones, Schonlau and Welch 1998, doi 10.1023/A:1008306431147).
    """
    scaled = (means - best) / scatters
    below = np.array([0.5 * (1 + math.erf(each / math.sqrt(2))) for each in scaled])
    density = np.exp(-(scaled**2) / 2) / math.sqrt(2 * math.pi)
    improvement: Array = scatters * (scaled * below + density)
    return improvement


def _pooled(measured: Sequence[Measured]) -> tuple[Places, Array, Array]:
    """The candidates measured, by place: their mean log rates, and the variances of those."""
    places = np.array(sorted({each.place for each in measured}), dtype=np.intp)
    precisions, rates = np.zeros(len(places)), np.zeros(len(places))
    for each in measured:
        place = np.searchsorted(places, each.place)
        precisions[place] += each.sd**-2
        rates[place] += each.sd**-2 * each.log_rate
    return places, rates / precisions, 1 / precisions
