"""What is handed back is run on first, past its first evaluations and checkpoints, which come
sooner: to its end, if that comes in time. It has to train there as the program as it is does.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotune.diagnosis.validation import steps_of_an_epoch, validation_share
from autotune.flow.context import Context
from autotune.flow.controls import Start
from autotune.flow.emitting import without
from autotune.flow.later import not_reached, parity_later, to_be_marked, what_was_not_seen
from autotune.flow.next_best import in_order, suspect
from autotune.flow.sooner import EPOCHS, INTERVAL, STEPS_PER_EPOCH, batches_of, how_it_runs
from autotune.knobs.knob import Config
from autotune.measurement.interleaved.turns import LOSSES_WANTED
from autotune.measurement.measurement import Failure
from autotune.measurement.untimed.through import Through, run_through
from autotune.outputs.patch import Emission
from autotune.outputs.wording import settings
from autotune.profiling.profile import Profile
from autotune.source.loops.seldom import seldom, sooner
from autotune.verdict import Parity, Verdict
from autotune.verdict.answer import held_to
from autotune.verdict.validations import between_epochs_in, short_validations_in
from autotune.workload.program.imported import whole_program
from autotune.workload.seen import Seen

# How long it is run on for.
THROUGH_SHARE, THROUGH_SECONDS = 0.06, (6.0, 30.0)
# How long the program as it is has to come as far as one that failed.
OWN_SECONDS = 60.0
# Workers may keep a program from its end: it is waited for so many times as long as without them.
TO_THE_END, TO_THE_END_SECONDS = 3.0, 5.0
WORKER_SECONDS = 0.3  # to start one, and to see it end, in each epoch
WITH_WORKERS = frozenset({"num_workers", "persistent_workers"})
# So many losses are compared of a program that ends sooner, its epochs being short and few.
FEWEST_LOSSES = 50
NO_END = Failure(kind="hung", reason="it does not come to its end")


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
    through = _Through(context, profiled.seen)
    if not through.is_worth_it:
        return verdict, emission
    context.listener.stage("running the tuned program on, to what comes after its first steps")
    patch: dict[str, Any] = {"sources": emission.sources, "compiles": emission.compiles}
    whole = bool(emission.sources) and not emission.refused
    given, why = patch if whole else {"config": config}, ""
    tuned = through.awaited(given, config)
    while tuned.failure and (why := through.why_unknown(tuned)) and through.changes_less():
        tuned = through.awaited(given, config)
    if tuned.failure is not None:
        if why:
            return replace(verdict, through=why), emission
        return through.withheld(verdict, tuned.failure, config), Emission()
    known = verdict.parity is not None and verdict.parity.same_training
    same = through.parity(given, tuned, config) if known else None
    if same and same.same_training is False:
        return through.another(verdict, same, config), Emission()
    verdict = through.with_validations(through.told(verdict, tuned, same), profiled)
    if emission.sources and not whole and not verdict.slows:
        patched = through.of(**patch)
        if patched.failure is not None and not through.why_unknown(patched):
            reason = f"with the patch the program fails later on: {patched.failure.reason}"
            emission = emission.withdrawn(reason)
    return verdict, Emission() if verdict.slows else emission


class _Through:
    """Runs past what comes after the first steps."""

    def __init__(self, context: Context, seen: Seen) -> None:
        self._context = context
        self._seen = seen
        self._own: Through | None = None  # the program as it is, where it was run
        self._compared: tuple[Through, Through] | None = None  # it, and the tuned program
        self._batches = batches_of(STEPS_PER_EPOCH, seen)
        self._are_longer = False  # its epochs, to compare losses
        self._seconds = context.seconds(THROUGH_SHARE, THROUGH_SECONDS)
        self._whole = whole = whole_program(context.target, seen) if context.target.path else None
        self._seldom = seldom(whole) if whole is not None else {}
        self._texts = {path: whole.scripts[path].text for path in self._seldom} if whole else {}

    @property
    def is_worth_it(self) -> bool:
        """Whether the program has anything that can be had sooner."""
        return bool(self._seen.loader or self._seldom)

    @property
    def _how(self) -> str:
        return how_it_runs([*self._seldom.values()], has_loader=self._seen.loader is not None)

    def start(
        self,
        config: Config | None = None,
        *,
        sources: Mapping[str, str] | None = None,
        compiles: bool = False,
        marks: Mapping[str, str] | None = None,
    ) -> Start:
        """What starts it with a config, or with the text of files for its own, `marks` in those."""
        texts = {**self._texts, **(marks or {}), **(sources or {})}
        how = {"interval": INTERVAL, "batches": self._batches, "epochs": EPOCHS}
        texts |= {path: sooner(texts[path], what, **how) for path, what in self._seldom.items()}
        return functools.partial(
            self._context.bench.start,
            config,
            sources=texts,
            compiles=compiles,
            marked=bool(marks),
        )

    def of(
        self, *, seconds: float = 0.0, steps: int = 0, losses: float = math.inf, **given: Any
    ) -> Through:
        """How it fares as it is `start`ed with what is `given`."""
        return run_through(
            self.start(**given),
            batches=self._batches,
            seconds=seconds or self._seconds,
            steps=steps,
            losses=losses,
        )

    def as_it_is(self, **how: Any) -> Through:
        """How the program as it is fares, with marks at what it comes to, if it can run so."""
        marks = to_be_marked(self._whole)
        found = self.of(marks=marks, **how)
        return self.of(**how) if marks and found.failure else found

    def changes_less(self) -> bool:
        """Have thresholds be passed where they are from now on, or then stages begin where they do,
        or then epochs be as many as they are: the program as it is may fail with what it does not
        expect. Whether that changes anything.
        """
        for name in ("thresholds", "stages", "outer"):
            if any(getattr(what, name) for what in self._seldom.values()):
                less = {name: frozenset[str]()}
                self._seldom = {path: replace(at, **less) for path, at in self._seldom.items()}
                self._own = None
                return True
        return False

    def why_unknown(self, other: Through) -> str:
        """Why the failure of `other` is none of its settings' doing, or that is not known; "" where
        it is: the program as it is comes further.
        """
        if other.failure is NO_END:
            return ""
        own = self.of(seconds=OWN_SECONDS, steps=other.steps + 1)
        if own.failure is not None:
            return (
                f"what it does later could not be tried: {self._how} the program fails as it is "
                f"too ({own.failure.reason}), and may do so in a full run, once it gets there"
            )
        assert other.failure is not None
        if own.ended or own.steps:
            return ""
        return (
            f"{self._how} the tuned program failed ({other.failure.reason}); the program as it is "
            f"did not get as far in {OWN_SECONDS:.0f} s, so that it may fail there too"
        )

    def awaited(self, given: Mapping[str, Any], config: Config) -> Through:
        """How it fares with what is `given`; where its workers may keep it from its end, to which
        the program as it is comes in time, it is waited for longer.
        """
        found = self.of(**given)
        if found.ended or found.failure is not None or WITH_WORKERS.isdisjoint(config):
            return found
        self._own = own = self.as_it_is()
        if not own.ended:
            return found
        workers = int(config.get("num_workers", 0)) or 1
        starts = EPOCHS * workers * WORKER_SECONDS
        longer = TO_THE_END * own.seconds + TO_THE_END_SECONDS + starts
        again = self.of(seconds=longer, **given)
        return again if again.ended or again.failure else replace(again, failure=NO_END)

    def withheld(self, verdict: Verdict, failure: Failure, config: Config) -> Verdict:
        """`verdict` on `config`, with which the program has a `failure` later on."""
        assert verdict.speedup is not None
        endless, names = failure is NO_END, in_order(config)
        suspects = [each for each in names if not endless or each in WITH_WORKERS]
        name = self._guilty(config, suspects, failure)
        return replace(
            verdict,
            outcome="no_gain",
            reason=f"The best settings ({settings(config)}) came out "
            f"{verdict.speedup.estimate:.2f}×, but the program fails later with them: "
            f"{failure.reason.rstrip('.')}. As it is it was not seen to fail"
            f"{f', nor without {name}' if name else ''}.",
            config={},
            suspect=name or suspects[0],
            breaks=True,
        )

    def _guilty(self, config: Config, suspects: Sequence[str], failure: Failure) -> str:
        """The one of several settings without which the program has no such `failure`; "" where
        none is.
        """
        endless = failure is NO_END
        for name in suspects:
            if not (rest := without(config, name, self._seen)):
                continue  # that is the program as it is
            found = self.awaited({"config": rest}, rest) if endless else self.of(config=rest)
            if found.failure is None and (found.ended or not endless):
                return name
        return ""

    def parity(self, given: Mapping[str, Any], tuned: Through, config: Config) -> Parity:
        """Whether the program trains as it is as it does with `config`, of which `tuned` is what it
        came to with what was `given`.
        """
        tuned = self._longer(given, tuned)
        own = self._own or self.as_it_is(losses=LOSSES_WANTED)
        self._compared = own, tuned
        batches = {"epoch_batches": self._batches}
        as_it_is, with_config = (
            functools.partial(self.start(**each), **batches) for each in ({}, given)
        )
        return parity_later(self._context, config, (as_it_is, with_config), (own, tuned))

    def with_validations(self, verdict: Verdict, profiled: Profile) -> Verdict:
        """`verdict` with what its validations come to here, where none came in its turns."""
        if verdict.validations or not (verdict.speedup and self._compared):
            return verdict
        own, tuned = (each.windows for each in self._compared)
        found = short_validations_in(own, tuned, validation_share(profiled), verdict.speedup)
        if found is None:
            epoch = steps_of_an_epoch(profiled.seen) * profiled.step_seconds
            found = between_epochs_in(own, tuned, epoch, verdict.speedup)
        return held_to(verdict, found and found.of(self._seen))

    def _longer(self, given: Mapping[str, Any], tuned: Through) -> Through:
        """`tuned`, or where that has come to its end with too few losses, what it comes to with
        longer epochs.
        """
        losses = sum(len(each.losses) for each in tuned.windows)
        if not tuned.ended or not 0 < losses < FEWEST_LOSSES:
            return tuned
        batches, own = self._batches, self._own
        self._batches, self._own = batches * math.ceil(FEWEST_LOSSES / losses), None
        longer = self.of(losses=LOSSES_WANTED, **given)
        if longer.failure:
            self._batches, self._own = batches, own
            return tuned
        self._are_longer = True
        return longer

    def told(self, verdict: Verdict, tuned: Through, same: Parity | None) -> Verdict:
        """`verdict` with what was seen of what does not fail."""
        said = f"{self._how} the tuned program"
        if tuned.ended and tuned.seen is None:  # before its first step
            said += " made no training step: nothing was seen of later"
            return replace(verdict, through=said)
        ran = "to its end" if tuned.ended else f"for {tuned.seconds:.0f} s and not to its end"
        if not tuned.ended and self._seconds < THROUGH_SECONDS[1]:
            ran += " (a larger budget runs it on for longer)"
        said += f" ran {ran}"
        if not (same and same.same_training):
            return replace(verdict, through=said)
        missed = not_reached(self._whole, self._compared)
        said += (
            f"; over {same.steps} steps of {'a longer run' if self._are_longer else 'that'} "
            f"its losses are those of the program as it is, within noise{what_was_not_seen(missed)}"
        )
        return replace(verdict, through=said, not_reached=tuple(at for at, _ in missed))

    def another(self, verdict: Verdict, same: Parity, config: Config) -> Verdict:
        """`verdict` on `config`, which trains otherwise by what was found later on."""
        assert verdict.speedup is not None
        is_other = self._are_longer and self._seen.loader is not None  # than `_how` says
        how = "with its epochs cut short," if is_other else self._how
        return replace(
            verdict,
            outcome="no_gain",
            reason=f"The best settings came out {verdict.speedup.estimate:.2f}×, but {how} "
            f"the program does not train the same with them: {same.reason}",
            config={},
            parity=same,
            suspect=suspect(config) or in_order(config)[0],
        )
