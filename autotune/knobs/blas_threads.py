"""How many threads the linear algebra of NumPy and SciPy (OpenBLAS) may use.

What it does
    Limits the threads of every OpenBLAS in the process, by `threadpoolctl`; loader workers that are
    forked from it have the same limit. Torch's own threads stay what they are.

When it helps
    On a CPU, when a dataset, a collate function or the loop itself multiplies matrices in NumPy.
    OpenBLAS's threads go on spinning for tens of milliseconds after each product, on the cores
    that torch's threads then wait for.

What it costs
    NumPy's own large products and decompositions take longer with one thread. The patched program
    needs the package `threadpoolctl`, which came with autotune and comes with scikit-learn.

What it changes
    The order in which NumPy adds up long sums, so the last digits of its results.
"""

import math

from autotune.diagnosis import Bottleneck
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ProcessStatement
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup
from autotune.workload.window import AS_IS, ONE_BLAS_THREAD

# What it gains at the least to be worth a trial: windows of a fraction of a second scatter.
_NOTABLE = 1.05
_LEAST_LEFT = 0.05  # of that phase
# Processors that a loader's worker keeps busy by itself: torch computes with one thread in it. What
# the program may gain where it keeps more, an estimate.
_ONE_THREAD, _BY_WORKERS = 1.1, 1.1


class BlasThreads(Knob):
    name = "blas_threads"
    relieves = frozenset({Bottleneck.THREADS})
    semantics = Semantics.EQUIVALENT
    admits = range(1, 1025)

    def domain(self, profile: Profile) -> Choices | Skip:
        own = int(self.read(profile.seen))
        if own == 0:
            return Skip(reason="the process has no OpenBLAS", impossible=True)
        if own == 1:
            return Skip(reason="NumPy's linear algebra uses one thread already")
        gain = profile.probes.get(ONE_BLAS_THREAD)
        if gain is None and _processors_of_a_worker(profile) <= _ONE_THREAD:
            return Skip(reason="NumPy was not seen to compute with several threads")
        if gain is not None and gain < _NOTABLE:
            return Skip(
                reason="with one thread for NumPy's linear algebra it was not clearly faster"
            )
        return Choices(own=own, values=(1, own))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        # What it gains was timed of the whole step: it is expected where most of that is. What
        # workers gain by it was not.
        gain = profile.probes.get(ONE_BLAS_THREAD, _BY_WORKERS)
        computing = profile.phases.get("forward", 0.0) + profile.phases.get("backward", 0.0)
        share, phase = max((computing, "compute"), (profile.phases.get("data", 0.0), "data"))
        if value != 1 or not share:
            return Expectation(phase=phase, sd=0.2)
        left = max(_LEAST_LEFT, (1 / gain - (1 - share)) / share)
        return Expectation(phase=phase, log_mean=math.log(left), sd=0.2)

    def read(self, seen: Seen) -> Value:
        return seen.blas_threads

    def apply(self, setup: Setup, value: Value) -> None:
        from autotune.workload.system.blas import limit_blas_threads

        setup.switch(lambda: limit_blas_threads(int(value)))

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        return (
            ProcessStatement(
                code="threadpoolctl.ThreadpoolController()"
                f'.select(internal_api="openblas").limit(limits={value})',
                imports=("import threadpoolctl  # NumPy's threads; pip install threadpoolctl",),
            ),
            ProcessStatement(  # for one that is loaded later: SciPy's, say, by a function
                code=f'os.environ["OPENBLAS_NUM_THREADS"] = "{value}"', imports=("import os",)
            ),
        )


def _processors_of_a_worker(profile: Profile) -> float:
    """How many processors each worker of the training loader keeps busy; 0 without any."""
    loader = profile.seen.loader
    windows = [window for window in profile.windows if window.mode == AS_IS]
    seconds = sum(window.seconds for window in windows)
    if loader is None or not loader.num_workers or not seconds:
        return 0.0
    return sum(window.worker_cpu_seconds for window in windows) / seconds / loader.num_workers
