"""What is handed back is run on first, past its first evaluations and checkpoints, which come
sooner: to its end, if that comes in time.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import replace

from autotune.flow.context import Context
from autotune.flow.emitting import without
from autotune.flow.next_best import in_order
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure
from autotune.measurement.untimed.through import Through, run_through
from autotune.outputs.patch import Emission
from autotune.outputs.wording import settings
from autotune.profiling.profile import Profile
from autotune.source.loops.seldom import Seldom, seldom, sooner
from autotune.verdict import Verdict
from autotune.workload.program.imported import whole_program
from autotune.workload.seen import Seen

# How long it is run on for.
THROUGH_SHARE, THROUGH_SECONDS = 0.06, (6.0, 30.0)
# Of how many steps an epoch is, how many of these there are, and how many steps or epochs lie
# between what comes every so many.
STEPS_PER_EPOCH, EPOCHS, INTERVAL = 2, 10, 2
# The program as it is has twice as long as it should take to come as far, and these seconds.
SLACK, SLACK_SECONDS = 2.0, 2.0
MOST_SLOWER = 10.0


def seen_through(
    context: Context, profiled: Profile, config: Config, verdict: Verdict, emission: Emission
) -> tuple[Verdict, Emission]:
    """`verdict` on what is faster with `config`, and its `emission`, as far as their programs still
    run when their epochs are over, when it is time for what they do every so many steps, and at
    their end: all of that comes after a few steps, and both run on for some seconds.

    Where the program fails as it is with all that so short, nothing is known. One of which nothing
    can come sooner is not run.
    """
    if verdict.outcome != "faster":
        return verdict, emission
    through = _Through(context, profiled.seen, verdict)
    if not through.is_worth_it:
        return verdict, emission
    context.listener.stage("running the tuned program past its first evaluations and checkpoints")
    patch = functools.partial(through.of, sources=emission.sources, compiles=emission.compiles)
    whole = bool(emission.sources) and not emission.refused
    tuned = patch() if whole else through.of(config)
    if tuned.failure is not None:
        if why := through.why_unknown(tuned):
            return replace(verdict, through=why), emission
        return through.withheld(verdict, tuned.failure, config), Emission()
    verdict = replace(verdict, through=through.said(tuned))
    if emission.sources and not whole:
        patched = patch()
        if patched.failure is not None and not through.why_unknown(patched):
            reason = f"with the patch the program fails later on: {patched.failure.reason}"
            emission = emission.withdrawn(reason)
    return verdict, emission


class _Through:
    """Runs past what comes after the first steps."""

    def __init__(self, context: Context, seen: Seen, verdict: Verdict) -> None:
        self._bench = context.bench
        self._seen = seen
        self._batches = STEPS_PER_EPOCH * math.ceil(max(1.0, seen.backwards_per_step))
        self._seconds = context.seconds(THROUGH_SHARE, THROUGH_SECONDS)
        faster = verdict.speedup.high if verdict.speedup else MOST_SLOWER
        self._slower = max(1.0, min(MOST_SLOWER, faster))
        whole = whole_program(context.target, seen) if context.target.path else None
        self._seldom = seldom(whole) if whole is not None else {}
        self._texts = {path: whole.scripts[path].text for path in self._seldom} if whole else {}

    @property
    def is_worth_it(self) -> bool:
        """Whether the program has anything that can be had sooner."""
        return bool(self._seen.loader or self._seldom)

    def of(
        self,
        config: Config | None = None,
        *,
        sources: Mapping[str, str] | None = None,
        compiles: bool = False,
        seconds: float = 0.0,
    ) -> Through:
        """How it fares with a config, or with the text of files in the place of its own."""
        texts = {**self._texts, **(sources or {})}
        texts |= {path: self._sooner(texts[path], what) for path, what in self._seldom.items()}
        start = functools.partial(self._bench.start, config, sources=texts, compiles=compiles)
        return run_through(start, batches=self._batches, seconds=seconds or self._seconds)

    def _sooner(self, text: str, what: Seldom) -> str:
        return sooner(text, what, interval=INTERVAL, batches=self._batches, epochs=EPOCHS)

    def why_unknown(self, other: Through) -> str:
        """Why the failure of `other` is none of its settings' doing; "" where it is."""
        own = self.of(seconds=SLACK * self._slower * other.seconds + SLACK_SECONDS)
        if own.failure is None:
            return ""
        return (
            f"what it does later could not be tried: with epochs of {STEPS_PER_EPOCH} steps the "
            f"program fails as it is ({own.failure.reason})"
        )

    def withheld(self, verdict: Verdict, failure: Failure, config: Config) -> Verdict:
        """`verdict` on `config`, with which the program has a `failure` later on."""
        assert verdict.speedup is not None
        name = self._guilty(config)
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

    def _guilty(self, config: Config) -> str:
        """The one setting without which the program does not fail; "" where none is."""
        names = in_order(config)
        for name in names if len(names) > 1 else ():
            if self.of(without(config, name, self._seen)).failure is None:
                return name
        return ""

    def said(self, tuned: Through) -> str:
        """What was seen of what does not fail."""
        sooner_so = f"with epochs of {STEPS_PER_EPOCH} steps"
        if tuned.ended:
            return f"{sooner_so}, the tuned program came to its own end"
        return f"{sooner_so}, the tuned program went on for {tuned.seconds:.0f} s and did not fail"
