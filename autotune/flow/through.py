"""What is handed back is run through first: past the ends of its epochs, to its own if need be."""

import functools
import math
from collections.abc import Mapping
from dataclasses import replace

from autotune.flow.context import Context
from autotune.flow.controls import Start
from autotune.flow.emitting import without
from autotune.flow.next_best import in_order
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure
from autotune.measurement.untimed.through import Through, run_through
from autotune.outputs.patch import Emission
from autotune.outputs.wording import settings
from autotune.profiling.profile import Profile
from autotune.verdict import BASELINE, DELIVERED, TUNED, Verdict
from autotune.workload.seen import Seen

# How long it is run on for; and of how many batches its epochs are, for each that a step takes.
THROUGH_SHARE, THROUGH_SECONDS = 0.06, (4.0, 30.0)
STEPS_PER_EPOCH = 2
# The program as it is has twice as long as it should take to come as far, and these seconds.
SLACK, SLACK_SECONDS = 2.0, 2.0
MOST_SLOWER = 10.0


def seen_through(
    context: Context,
    profiled: Profile,
    contestants: Mapping[str, Start],
    config: Config,
    verdict: Verdict,
    emission: Emission,
) -> tuple[Verdict, Emission]:
    """`verdict` on what is faster with `config`, and its `emission`, as far as their programs still
    run when their epochs are over: these are cut short, and both run on for some seconds.

    Where the program fails as it is with epochs so short, nothing is known. One without a loader
    has no epochs to cut.
    """
    if verdict.outcome != "faster" or profiled.seen.loader is None:
        return verdict, emission
    context.listener.stage("running the tuned program past the ends of its epochs")
    through = _Through(context, contestants, profiled.seen, verdict)
    tuned = through.of(TUNED)
    if why := through.why_unknown(tuned):
        return replace(verdict, through=why), emission
    if tuned.failure is not None:
        return through.withheld(verdict, tuned.failure, config, profiled.seen), Emission()
    verdict = replace(verdict, through=through.said(tuned))
    if DELIVERED in contestants and emission.sources:
        failure = through.of(DELIVERED).failure
        if failure is not None:
            emission = emission.withdrawn(
                f"with the patch the program fails later on: {failure.reason}"
            )
    return verdict, emission


class _Through:
    """Runs of the contestants past the ends of their epochs."""

    def __init__(
        self, context: Context, contestants: Mapping[str, Start], seen: Seen, verdict: Verdict
    ) -> None:
        self._start = contestants
        self._bench = context.bench
        self._batches = STEPS_PER_EPOCH * math.ceil(max(1.0, seen.backwards_per_step))
        self._seconds = context.seconds(THROUGH_SHARE, THROUGH_SECONDS)
        faster = verdict.speedup.high if verdict.speedup else MOST_SLOWER
        self._slower = max(1.0, min(MOST_SLOWER, faster))

    def of(self, name: str) -> Through:
        """How one of them fares."""
        return run_through(self._start[name], batches=self._batches, seconds=self._seconds)

    def why_unknown(self, tuned: Through) -> str:
        """Why a failure is none of the settings' doing; "" where it is, or there was none."""
        if tuned.failure is None:
            return ""
        seconds = SLACK * self._slower * tuned.seconds + SLACK_SECONDS
        own = run_through(self._start[BASELINE], batches=self._batches, seconds=seconds)
        if own.failure is None:
            return ""
        return (
            f"what follows its epochs could not be tried: with {self._batches} batches in each, "
            f"the program fails as it is ({own.failure.reason})"
        )

    def withheld(self, verdict: Verdict, failure: Failure, config: Config, seen: Seen) -> Verdict:
        """`verdict` on `config`, with which the program has a `failure` later on."""
        assert verdict.speedup is not None
        name = self._guilty(config, seen)
        blamed = {name: config[name]} if name else config
        return replace(
            verdict,
            outcome="no_gain",
            reason=f"The best settings came out {verdict.speedup.estimate:.2f}×, but with "
            f"{settings(blamed)} the program fails later, where as it is it does not: "
            f"{failure.reason}",
            config={},
            suspect=name or in_order(config)[0],
            breaks=True,
        )

    def _guilty(self, config: Config, seen: Seen) -> str:
        """The one setting without which the program does not fail; "" where none is."""
        names = in_order(config)
        for name in names if len(names) > 1 else ():
            rest = functools.partial(self._bench.start, without(config, name, seen))
            found = run_through(rest, batches=self._batches, seconds=self._seconds)
            if found.failure is None:
                return name
        return ""

    def said(self, tuned: Through) -> str:
        """What was seen of what does not fail."""
        epochs = f"with no more than {self._batches} batches in an epoch"
        if tuned.ended:
            return f"{epochs}, the tuned program came to its own end"
        return f"{epochs}, the tuned program was run on for {tuned.seconds:.0f} s, and did not fail"
