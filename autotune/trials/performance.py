"""How fast each configuration should be: a model of the training loop with priors, refitted to what
the trials measured.

A sample costs the loader, the computation, the optimizer, the copy and the rest their seconds, as
the profile found them. Without workers these add up. With workers, the loader and the training go
on side by side: the slowest of three decides, the workers together, the training, or the processors
that both of them need. A setting multiplies the seconds of one phase by a factor that is not known;
its prior is the knob's expectation. All unknowns are fitted at once to the logarithms of the
measured rates (Gauss-Newton to the maximum of the posterior, its curvature for the uncertainty:
Laplace's approximation; MacKay, Information Theory, Inference and Learning Algorithms, ch. 27).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.knobs.knob import Expectation, Value

Array = NDArray[np.float64]
Places = NDArray[np.intp]

# What is known of a loop before any trial, as mean and standard deviation. Shares of phases are
# wrong by 10 %. Workers do not quite add up. A batch that comes from a worker costs its transport,
# some 0.8 ms within a factor of two. More processes than cores crowd each other.
PHASES_SD = 0.1
LEVEL_SD = 0.3  # the machine's speed, between the profile and a trial
PARALLEL = (0.95, 0.08)
TRANSPORT_LOG_SECONDS = (math.log(8e-4), 0.8)
CROWDING = (0.15, 0.15)
# Threads speed up computation by their number to this power: little where a step is short, since
# its operations are too small to share.
THREADS, THREADS_SD = 0.3, 0.25
SHORT_STEP_SECONDS, LONG_STEP_SECONDS = 0.003, 0.03
OPTIMIZER_THREADS = (0.0, 0.2)
# Where the profile has timed one thread beside the program's own, it is known for the whole step;
# what it is in another precision, or beside workers, is not.
THREADS_TIMED_SD = 0.1
# More threads than cores wait for one another: computing slows down by how many times more there
# are, to about this power; chosen, not measured.
OVERSUBSCRIBED = (1.0, 0.5)
# Part of each further core that a thread keeps busy.
THREAD_BUSY = 0.85
# A worker's own share of a batch's transport.
SENDING = 0.3
# The three that go on side by side hinder each other where they are close: norm of this power
# instead of the maximum.
SHARPNESS = 6
# What the model's form gets wrong, as scatter of the logarithm.
MISFIT = 0.1

SHORTEST_SECONDS = 1e-12
FITTING_STEPS = 12
LONGEST_FITTING_STEP = 0.5
DIFFERENCE = 1e-3

STRUCTURE = ("num_workers", "threads", "fetch_threads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds that one sample costs at the program's own settings.

    `loader` is of a single process, `loader_processor` the part of it that keeps a core busy. On a
    device, `threads_compute` is false: the processors' threads do not compute. `threads_power` is
    to what power of their number they speed up computing, where that was timed.
    """

    loader: float
    loader_processor: float
    compute: float
    optimizer: float
    copy: float
    other: float
    batch: float
    cores: float
    threads_compute: bool = True
    threads_power: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A candidate, by its place, that was timed: the logarithm of its rate, and the scatter of
    that.
    """

    place: int
    log_rate: float
    sd: float


class PerformanceModel:
    """Rates of `candidates`, in logarithms of samples per second.

    Args:
        costs: of the program as it is.
        own: its own settings.
        candidates: whole configurations, a value for each knob.
        expected: what a knob's value should do to a phase, or to several, relative to the
            program's own value.
    """

    def __init__(
        self,
        costs: Costs,
        own: Mapping[str, Value],
        candidates: Sequence[Mapping[str, Value]],
        expected: Iterable[tuple[tuple[str, Value], Expectation]],
    ) -> None:
        self._costs = costs
        self._own = own
        self._workers = _column(candidates, "num_workers", 0)
        self._threads = np.maximum(1.0, _column(candidates, "threads", own.get("threads", 1)))
        self._fetching = np.maximum(1.0, _column(candidates, "fetch_threads", 0))
        self._mean: list[float] = []
        self._scatter: list[float] = []
        self._unknown: dict[str, int] = {}
        self._structure()
        self._masks = [
            (
                expectation.phase,
                self._add(f"{setting} {expectation.phase}", expectation.log_mean, expectation.sd),
                np.array([each.get(setting[0]) == setting[1] for each in candidates], dtype=float),
            )
            for setting, expectation in expected
            if setting[0] not in STRUCTURE
        ]

    def _structure(self) -> None:
        costs = self._costs
        self._add("level", 0.0, LEVEL_SD)
        for phase in ("data", "copy", "compute", "optimizer"):
            self._add(phase, 0.0, PHASES_SD)
        training = costs.compute + costs.optimizer
        step = max(1e-9, costs.batch * training)
        long = math.log(step / SHORT_STEP_SECONDS) / math.log(
            LONG_STEP_SECONDS / SHORT_STEP_SECONDS
        )
        if costs.threads_power is None:
            self._add("threads", THREADS * min(1.0, max(0.0, long)), THREADS_SD)
            self._add("optimizer threads", *OPTIMIZER_THREADS)
        else:
            self._add("threads", costs.threads_power, THREADS_TIMED_SD)
            self._add("optimizer threads", costs.threads_power, THREADS_TIMED_SD)
        self._add("oversubscribed", *OVERSUBSCRIBED)
        self._add("parallel", *PARALLEL)
        self._add("transport", *TRANSPORT_LOG_SECONDS)
        self._add("crowding", *CROWDING)

    def _add(self, name: str, mean: float, scatter: float) -> int:
        self._unknown[name] = len(self._mean)
        self._mean.append(mean)
        self._scatter.append(scatter)
        return self._unknown[name]

    def fit(self, measured: Sequence[Measured]) -> tuple[Array, Array]:
        """Expected log rate of every candidate, and its standard deviation, given `measured`.

        What was measured several times is the better known for it, but what the model's form gets
        wrong of it stays the same.
        """
        places, rates, noise = _pooled(measured)
        weights = 1 / (noise + MISFIT**2)
        unknown = self._fitted(places, rates, weights)
        means, slopes = self._slopes(unknown)
        covariance = np.linalg.inv(self._curvature(slopes[places], weights))
        variances = np.maximum(0.0, np.einsum("ij,jk,ik->i", slopes, covariance, slopes))
        # Of what was measured beside the model's expectation, this share is no noise.
        own = MISFIT**2 / (MISFIT**2 + noise)
        means[places] += own * (rates - means[places])
        known = own * noise + (1 - own) ** 2 * variances[places]
        variances += MISFIT**2
        variances[places] = known
        return means, np.sqrt(variances)

    def _fitted(self, places: Places, rates: Array, weights: Array) -> Array:
        prior, mean = self._curvature(np.empty((0, len(self._mean))), np.empty(0)), self._mean
        unknown = np.array(mean)
        for _ in range(FITTING_STEPS):
            base, slopes = self._slopes(unknown)
            seen = slopes[places]
            pull = prior @ (mean - unknown) + (seen.T * weights) @ (rates - base[places])
            step = np.linalg.solve(self._curvature(seen, weights), pull)
            step = np.clip(step, -LONGEST_FITTING_STEP, LONGEST_FITTING_STEP)
            unknown = unknown + step
            if np.abs(step).max() < DIFFERENCE:
                break
        return unknown

    def _curvature(self, seen: Array, weights: Array) -> Array:
        """Of the negative logarithm of the posterior: the prior's, and what was seen."""
        curvature: Array = np.diag(1 / np.array(self._scatter) ** 2) + (seen.T * weights) @ seen
        return curvature

    def _slopes(self, unknown: Array) -> tuple[Array, Array]:
        """Log rates of all candidates, and their derivatives by each unknown."""
        base = self._log_rates(unknown)
        slopes = np.empty((len(base), len(unknown)))
        for place in range(len(unknown)):
            moved = unknown.copy()
            moved[place] += DIFFERENCE
            slopes[:, place] = (self._log_rates(moved) - base) / DIFFERENCE
        return base, slopes

    def _log_rates(self, unknown: Array) -> Array:
        costs, of = self._costs, {name: unknown[place] for name, place in self._unknown.items()}
        logs = {
            phase: np.full(len(self._workers), of[phase])
            for phase in ("data", "copy", "compute", "optimizer")
        }
        for phase, place, mask in self._masks:
            logs[phase] = logs[phase] + unknown[place] * mask
        more, over = self._more_threads()
        slowed = of["oversubscribed"] * over
        training = (
            costs.compute * np.exp(logs["compute"] - of["threads"] * more + slowed)
            + costs.optimizer * np.exp(logs["optimizer"] - of["optimizer threads"] * more + slowed)
            + costs.copy * np.exp(logs["copy"])
            + costs.other
        )
        working = costs.loader_processor * np.exp(logs["data"])
        waiting = (costs.loader - costs.loader_processor) * np.exp(logs["data"])
        waiting = waiting / self._fetching ** of["parallel"]
        inline = training + working + waiting
        beside = self._beside(training, working, waiting, of)
        seconds: Array = np.where(self._workers > 0, beside, inline)
        rates: Array = of["level"] - np.log(np.maximum(seconds, SHORTEST_SECONDS))
        return rates

    def _more_threads(self) -> tuple[Array, Array]:
        """How many times the program's own threads each candidate has, as far as there are cores,
        and how many times as many beyond these; in logarithms.
        """
        own = max(1.0, float(self._own.get("threads", 1)))
        cores = self._costs.cores if self._costs.threads_compute else math.inf
        more = np.log(np.minimum(self._threads, cores) / min(own, cores))
        over = np.log(np.maximum(1.0, self._threads / cores) / max(1.0, own / cores))
        return more, over

    def _beside(
        self, training: Array, working: Array, waiting: Array, of: Mapping[str, float]
    ) -> Array:
        """Seconds of a sample where workers load beside the training."""
        costs, workers = self._costs, np.maximum(1.0, self._workers)
        transport = math.exp(of["transport"]) / costs.batch
        fit = np.minimum(self._threads, max(1.0, costs.cores))
        computing = fit if costs.threads_compute else np.ones_like(workers)
        loading = (working + waiting + SENDING * transport) / workers ** of["parallel"]
        busy = 1 + (computing - 1) * THREAD_BUSY
        processors = (working + transport + training * busy) / costs.cores
        # Norms of numbers that are close to zero underflow: of shares of the largest instead.
        parts = np.stack([loading, training + transport, processors])
        largest = parts.max(axis=0)
        slowest = largest * ((parts / largest) ** SHARPNESS).sum(axis=0) ** (1 / SHARPNESS)
        decoding = costs.loader_processor / costs.loader if costs.loader > 0 else 0.0
        crowd = np.maximum(1.0, (workers * decoding + computing) / costs.cores)
        crowded: Array = slowest * crowd ** of["crowding"]
        return crowded


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


def _column(candidates: Sequence[Mapping[str, Value]], name: str, default: Value) -> Array:
    return np.array([float(each.get(name, default)) for each in candidates])
