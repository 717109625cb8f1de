"""How many samples a second the training loop makes at each of many configurations, by what is not
known of it.

A sample costs the loader, the computation, the optimizer, the copy and the rest their seconds, as
the profile found them. Without workers these add up. With workers, the loader and the training go
on side by side: the slowest of three decides, the workers together, the training, or the processors
that both of them need; and where they do not live on, their start takes its time in each epoch. A
setting multiplies the seconds of one phase by a factor; in a batch that is so many times as large,
a sample has that part of the optimizer's seconds and of the transport. A device computes while the
host launches what comes next: the slower of the two decides.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.knobs.knob import Value

Array = NDArray[np.float64]
Places = NDArray[np.intp]

PHASES = ("data", "copy", "compute", "launch", "optimizer")
STRUCTURE = ("num_workers", "threads", "fetch_threads")

# What is known of a loop before any trial, as mean and standard deviation. Workers do not quite add
# up. A batch that comes from a worker costs its transport, some 0.8 ms within a factor of two. More
# processes than cores crowd each other.
PARALLEL = (0.95, 0.08)
TRANSPORT_LOG_SECONDS = (math.log(8e-4), 0.8)
CROWDING = (0.15, 0.15)
# Threads that compute together wait for the slowest of them: one that shares its core with a worker
# delays all. Chosen, between what trials beside workers and simulated programs come to.
TOGETHER = (0.25, 0.25)
# Each worker takes some 20 ms to start, in each epoch, within a factor of two: chosen. Where the
# profile has seen it, it is known better.
START_LOG_SECONDS = (math.log(0.02), 0.7)
START_SEEN_SD = 0.3
# Threads speed up computation by their number to this power: little where a step is short, since
# its operations are too small to share.
THREADS, THREADS_SD = 0.3, 0.25
SHORT_STEP_SECONDS, LONG_STEP_SECONDS = 0.003, 0.03
OPTIMIZER_THREADS = (0.0, 0.2)
# Where the profile has timed one thread beside the program's own, that is known of the whole step;
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

SHORTEST_SECONDS = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds that one sample costs at the program's own settings.

    `loader` is of a single process, `loader_processor` the part of it that keeps a core busy. On a
    device, `threads_compute` is false: the processors' threads do not compute, and `launch` is what
    they launch meanwhile, 0 where that is not known to matter. `threads_power` is
    to what power of their number they speed up computing, where that was timed. `epoch` is how many
    samples an epoch has, `start` what each worker was seen to take to start with it.
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
    epoch: float = math.inf
    start: float | None = None
    launch: float = 0.0


def side_by_side(*those: Array) -> Array:
    """Seconds in which all are over that go on at once, and hinder each other where they are
    close: a norm instead of the maximum.
    """
    parts = np.stack(those)
    largest = np.maximum(parts.max(axis=0), SHORTEST_SECONDS)
    # Norms of numbers that are close to zero underflow: of shares of the largest instead.
    slowest: Array = largest * ((parts / largest) ** SHARPNESS).sum(axis=0) ** (1 / SHARPNESS)
    return slowest


def prior_of(costs: Costs) -> dict[str, tuple[float, float]]:
    """What is not known of every loop, each with its mean and standard deviation."""
    step = max(1e-9, costs.batch * (costs.compute + costs.optimizer))
    long = math.log(step / SHORT_STEP_SECONDS) / math.log(LONG_STEP_SECONDS / SHORT_STEP_SECONDS)
    threads = THREADS * min(1.0, max(0.0, long)), THREADS_SD
    if (timed := costs.threads_power) is not None:
        threads = timed, THREADS_TIMED_SD
    return {
        "threads": threads,
        "optimizer threads": OPTIMIZER_THREADS if timed is None else threads,
        "oversubscribed": OVERSUBSCRIBED,
        "parallel": PARALLEL,
        "transport": TRANSPORT_LOG_SECONDS,
        "crowding": CROWDING,
        "together": TOGETHER,
        "start": (math.log(costs.start), START_SEEN_SD) if costs.start else START_LOG_SECONDS,
    }


class Loop:
    """The loop at each of `candidates`, whole configurations, of a program whose `own` settings
    have these `costs`.
    """

    def __init__(
        self,
        costs: Costs,
        own: Mapping[str, Value],
        candidates: Sequence[Mapping[str, Value]],
    ) -> None:
        self._costs = costs
        self._own = own
        self._workers = _column(candidates, "num_workers", 0)
        self._threads = np.maximum(1.0, _column(candidates, "threads", own.get("threads", 1)))
        self._starting = self._workers * (1 - _column(candidates, "persistent_workers", False))
        self._fetching = np.maximum(1.0, _column(candidates, "fetch_threads", 0))
        batch = max(1.0, float(own.get("batch_size", 1)))  # 0 where the program has no loader
        self._larger = np.maximum(1.0, _column(candidates, "batch_size", batch)) / batch

    def at(self, places: Places) -> "Loop":
        """The loop at some of its candidates."""
        some = Loop(self._costs, self._own, ())
        some._workers = self._workers[places]
        some._threads = self._threads[places]
        some._starting = self._starting[places]
        some._fetching = self._fetching[places]
        some._larger = self._larger[places]
        return some

    def log_rates(self, factors: Mapping[str, Array], of: Mapping[str, float]) -> Array:
        """Logarithms of samples per second, by what each candidate multiplies the seconds of phases
        (`factors`, as logarithms), and by what `prior_of` names.
        """
        costs = self._costs
        more, over = self._more_threads()
        slowed = of["oversubscribed"] * over
        computing = costs.compute * np.exp(factors["compute"] - of["threads"] * more + slowed)
        training = (
            side_by_side(computing, costs.launch * np.exp(factors["launch"]))
            + costs.optimizer
            / self._larger
            * np.exp(factors["optimizer"] - of["optimizer threads"] * more + slowed)
            + costs.copy * np.exp(factors["copy"])
            + costs.other
        )
        slower = np.exp(factors["data"])
        working = costs.loader_processor * slower
        waiting = (costs.loader - costs.loader_processor) * slower
        waiting = waiting / self._fetching ** of["parallel"]
        beside = self._beside(training, working, waiting, of)
        seconds = np.where(self._workers > 0, beside, training + working + waiting)
        rates: Array = -np.log(np.maximum(seconds, SHORTEST_SECONDS))
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
        transport = math.exp(of["transport"]) / (costs.batch * self._larger)
        fit = np.minimum(self._threads, max(1.0, costs.cores))
        computing = fit if costs.threads_compute else np.ones_like(workers)
        loading = (working + waiting + SENDING * transport) / workers ** of["parallel"]
        busy = 1 + (computing - 1) * THREAD_BUSY
        processors = (working + transport + training * busy) / costs.cores
        slowest = side_by_side(loading, training + transport, processors)
        decoding = costs.loader_processor / costs.loader if costs.loader > 0 else 0.0
        crowd = np.maximum(1.0, (workers * decoding + computing) / costs.cores)
        starting = math.exp(of["start"]) * self._starting / costs.epoch
        crowding = of["crowding"] + of["together"] * (computing > 1)
        beside: Array = slowest * crowd**crowding + starting
        return beside


def _column(candidates: Sequence[Mapping[str, Value]], name: str, default: float | str) -> Array:
    return np.array([float(each.get(name, default)) for each in candidates], dtype=float)
