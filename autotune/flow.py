"""The whole of autotune on one page: a target is profiled, searched, judged, and handed back
faster.

    Target -> Profile -> Diagnosis -> Space -> Trials -> emitted program -> Verdict -> Result
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from autotune.diagnosis import diagnose
from autotune.errors import MeasurementError, ProgramError
from autotune.knobs import unobserved
from autotune.knobs.knob import Config, Semantics, Value
from autotune.listener import Listener
from autotune.machine import detect
from autotune.measurement.ablation import Ablation, ablate
from autotune.measurement.benchmark import time_run
from autotune.measurement.measurement import Failure, Measurement
from autotune.measurement.process import ProcessRun, RunEnded
from autotune.measurement.statistics import LOOKS, TURNS_PER_PROCESS, throughput
from autotune.measurement.turns import Turns, take_turns
from autotune.measurement.workbench import Workbench
from autotune.outputs import write_outputs
from autotune.outputs.patch import Emission, emit
from autotune.profiling.build import build_profile
from autotune.profiling.probes import bf16_speedup
from autotune.profiling.profile import Profile
from autotune.result import Cost, Result, TargetFacts
from autotune.trials.space import Space, build_space
from autotune.trials.study import Study
from autotune.trials.trial import Trial
from autotune.verdict import Verdict, decide, is_decided
from autotune.workload.target import OBJECTS, Target, load_target
from autotune.workload.window import AS_IS, Window

# How the budget is shared: the profile at most so much, and so much kept back for judging what was
# found.
PROFILE_SHARE, VERDICT_SHARE = 0.12, 0.45
PROFILE_SECONDS = (4.0, 20.0)
WARM_SECONDS, WARM_SHARE = (2.0, 6.0), 0.05
TRIAL_SECONDS = (1.0, 6.0)
TRIAL_SHARE = 0.03
# A trial ends early when even the top of its interval is this far below the best one's bottom.
HOPELESS = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user may say about a run; the defaults need no flag. Times in seconds."""

    budget_seconds: float = 300.0
    trials: int | None = None
    steps: int | None = None
    out: Path | None = None
    device: str | None = None
    seed: int = 0
    allow: Semantics = Semantics.EQUIVALENT
    knobs: Mapping[str, tuple[Value, ...] | None] = field(default_factory=dict)
    storage: str | None = None


def profile(
    path: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    listener: Listener | None = None,
    options: Options | None = None,
) -> Result:
    """Measure where the training program in `path` spends its time, and the most that could be
    gained.

    Args:
        path: a script, or a recipe module.
        arguments: what the program is called with.
        listener: is told how it goes.
        options: what differs from the defaults; with `out`, `result.json` and `report.html` are
            written there.

    Raises:
        UsageError: the target is none.
        ProgramError: the program itself failed.
        MeasurementError: nothing could be measured.
    """
    run = _Run(load_target(path, arguments), options or Options(), listener or Listener())
    return run.profile()


def search(
    path: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    listener: Listener | None = None,
    options: Options | None = None,
) -> Result:
    """Profile the training program in `path`, search for faster settings, and judge the best
    against it in turns.

    Arguments and errors are those of `profile`; with `options.out`, the tuned program is written
    there too.
    """
    return search_target(load_target(path, arguments), listener or Listener(), options or Options())


def search_target(target: Target, listener: Listener, options: Options) -> Result:
    """`search`, of a target that is at hand."""
    return _Run(target, options, listener).search()


class _Run:
    """One target's way through the flow."""

    def __init__(self, target: Target, options: Options, listener: Listener) -> None:
        self.target = target
        self.options = options
        self.listener = listener
        self.began = time.monotonic()
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.machine = detect(options.device)
        self.deadline = self.began + options.budget_seconds
        self.warm_seconds = _within(WARM_SECONDS, WARM_SHARE * options.budget_seconds)

    def profile(self) -> Result:
        with Workbench(self.target, seed=self.options.seed, out=self.options.out) as bench:
            profiled, _ = self._profile(bench)
            return self._finish(self._result(profiled, bench.protection), Emission())

    def search(self) -> Result:
        with Workbench(self.target, seed=self.options.seed, out=self.options.out) as bench:
            profiled, baseline = self._profile(bench)
            space = build_space(profiled, allow=self.options.allow, given=self.options.knobs)
            self.listener.space(space)
            trials = self._try(bench, profiled, space, baseline)
            verdict, emission = self._judge(bench, profiled, trials)
            result = replace(
                self._result(profiled, bench.protection),
                space=space,
                trials=tuple(trials),
                verdict=verdict,
                edits=emission.edits,
                patch=emission.patch,
                cost=self._cost(profiled, trials, verdict),
            )
            return self._finish(result, emission)

    def _profile(self, bench: Workbench) -> tuple[Profile, Measurement]:
        """Observe one run, with the loop's costs taken away one at a time."""
        self.listener.stage("starting the program")
        seconds = _within(PROFILE_SECONDS, PROFILE_SHARE * self.options.budget_seconds)
        ablation = self._ablate(bench, seconds)
        bench.training_loader = ablation.seen.training_loader()
        _, interval = throughput(ablation.windows[AS_IS])
        profiled = build_profile(
            machine=self.machine,
            seen=ablation.seen,
            windows=ablation.windows,
            reasons=ablation.reasons,
            interval=interval,
            startup_seconds=ablation.startup_seconds,
            probes={"bf16_speedup": bench.call(bf16_speedup, self.machine.device)},
            budget_seconds=self.options.budget_seconds,
            ended_early=ablation.ended,
        )
        self.listener.profiled(profiled, diagnose(profiled))
        return profiled, _as_measurement(ablation, profiled)

    def _ablate(self, bench: Workbench, seconds: float) -> Ablation:
        try:
            return ablate(
                bench.observe,
                seconds=seconds,
                on_device=self.machine.device != "cpu",
                warm_seconds=self.warm_seconds,
            )
        except RunEnded as end:
            raise _why_nothing(self.target, end.failure) from None

    def _try(
        self, bench: Workbench, profiled: Profile, space: Space, baseline: Measurement
    ) -> list[Trial]:
        """Trials in fresh processes until the plan, the patience or the budget's share is used
        up.
        """
        study = Study(
            space, profiled, key=self._key(space), storage=self._storage(), seed=self.options.seed
        )
        ends = self.began + (1 - VERDICT_SHARE) * self.options.budget_seconds
        while (
            space.choices
            and time.monotonic() < ends
            and len(study.trials) <= (self.options.trials or sys.maxsize)
        ):
            asked = study.ask()
            if asked is None:
                break
            number, config = asked
            began = time.monotonic()
            self.listener.trial_begins(number, config, ends - began, study.best)
            outcome = self._measure(bench, profiled, config, study.best) if config else baseline
            trial = Trial(
                number=number, config=config, outcome=outcome, seconds=time.monotonic() - began
            )
            study.tell(trial)
            self.listener.trial_ended(trial, study.best)
        return study.trials or [Trial(number=0, config={}, outcome=baseline, seconds=0.0)]

    def _measure(
        self, bench: Workbench, profiled: Profile, config: Config, best: Trial | None
    ) -> Measurement | Failure:
        seconds = _within(TRIAL_SECONDS, TRIAL_SHARE * self.options.budget_seconds)
        floor = (
            best.outcome.interval[0] * HOPELESS
            if best and isinstance(best.outcome, Measurement)
            else 0.0
        )
        outcome = time_run(
            lambda: bench.start(config),
            seconds=max(seconds, 4 * profiled.step_seconds),
            cores=self.machine.cores,
            warm_seconds=self.warm_seconds,
            enough=lambda windows: len(windows) >= 3 and throughput(windows)[1][1] < floor,
        )
        if isinstance(outcome, Measurement) and (missing := unobserved(config, outcome.seen)):
            return Failure(kind="void", reason=missing[0])
        return outcome

    def _judge(
        self, bench: Workbench, profiled: Profile, trials: Sequence[Trial]
    ) -> tuple[Verdict, Emission]:
        """The best against the program as it is, and against what is handed back, in turns."""
        best = max(trials, key=lambda trial: getattr(trial.outcome, "samples_per_second", 0.0))
        emission = Emission()
        contestants: dict[str, Callable[[], ProcessRun]] = {"baseline": bench.start}
        if best.config:
            contestants["tuned"] = lambda: bench.start(best.config)
            if self.target.kind != OBJECTS:
                emission = emit(self.target, best.config, profiled.seen)
            if emission.sources:
                contestants["delivered"] = lambda: bench.start(sources=emission.sources)
        turns = Turns()
        if best.config:
            self.listener.stage("judging the best against the program as it is")
            turns = take_turns(
                contestants,
                rounds=LOOKS[-1],
                turns_per_round=TURNS_PER_PROCESS,
                deadline=max(self.deadline, time.monotonic() + 10),
                turn_seconds=max(0.4, 2.5 * profiled.step_seconds),
                warm_seconds=self.warm_seconds,
                after_round=lambda taken: is_decided(taken, cores=self.machine.cores),
            )
        verdict = decide(
            turns,
            best.config,
            cores=self.machine.cores,
            unobserved=lambda seen: unobserved(best.config, seen),
            edits=emission.edits,
        )
        return verdict, emission if verdict.outcome == "faster" else Emission()

    def _cost(self, profiled: Profile, trials: Sequence[Trial], verdict: Verdict) -> Cost:
        seconds = time.monotonic() - self.began
        steps = None
        if verdict.outcome == "faster" and verdict.speedup:
            saved = profiled.step_seconds * (1 - 1 / verdict.speedup.estimate)
            steps = round(seconds / saved) if saved > 0 else None
        return Cost(seconds=seconds, trials=len(trials), break_even_steps=steps)

    def _result(self, profiled: Profile, protection: str) -> Result:
        return Result(
            target=TargetFacts(
                kind=self.target.kind,
                name=self.target.name,
                path=self.target.path,
                arguments=self.target.arguments,
                source_sha256=self.target.source_sha256,
            ),
            profile=profiled,
            diagnosis=diagnose(profiled),
            protection=protection,
            command=tuple(sys.argv),
            started_at=self.started_at,
            seed=self.options.seed,
        )

    def _finish(self, result: Result, emission: Emission) -> Result:
        if self.options.out is not None:
            write_outputs(result, emission, self.target, self.options.out)
        return result

    def _key(self, space: Space) -> str:
        """The same program, arguments, machine, versions and space: the same study."""
        facts = [
            self.target.source_sha256,
            self.target.arguments,
            self.machine.device_name,
            self.machine.cores,
        ]
        facts += [
            self.machine.versions,
            {name: list(values) for name, values in space.choices.items()},
        ]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
        return f"{self.target.name}-{digest[:16]}"

    def _storage(self) -> Path | str | None:
        """A journal file below the output directory by default; memory where nothing is to be
        written.
        """
        if self.options.storage is not None:
            return self.options.storage
        return self.options.out / "study.journal" if self.options.out else None


def _as_measurement(ablation: Ablation, profiled: Profile) -> Measurement:
    """The profiled run as the first trial: the program's own setting has been timed already."""
    windows: tuple[Window, ...] = tuple(ablation.windows[AS_IS])
    return Measurement(
        samples_per_second=profiled.samples_per_second,
        interval=profiled.interval,
        windows=windows,
        seen=profiled.seen,
        startup_seconds=ablation.startup_seconds,
        peak_bytes=profiled.memory.peak_bytes,
        losses=tuple(loss for window in (*ablation.warm, *windows) for loss in window.losses),
    )


def _why_nothing(target: Target, failure: Failure) -> MeasurementError | ProgramError:
    if failure.kind in ("crashed", "out_of_memory", "killed"):
        return ProgramError(
            f"{target.path or 'the training'} failed: {failure.reason}",
            "Mend the program first; what it printed is above.",
            output=failure.output,
        )
    return MeasurementError(
        f"{target.path or 'the training'}: {failure.reason}",
        "autotune times optimizer steps: let the program train for some seconds (more epochs, more data).",
    )


def _within(limits: tuple[float, float], value: float) -> float:
    return min(max(value, limits[0]), limits[1])
