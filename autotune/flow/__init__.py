"""The whole of autotune on one page: a target is profiled, searched, judged, and handed back.

Target -> Profile -> Diagnosis -> Space -> Trials -> emitted program -> Verdict -> Result
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from autotune.diagnosis import diagnose
from autotune.flow.context import START_SECONDS, START_SHARE, Context, Options
from autotune.flow.judging import judge
from autotune.flow.profiling import profile_program
from autotune.flow.trying import try_configs
from autotune.flow.vetting import vet
from autotune.listener import Listener
from autotune.machine import detect
from autotune.measurement.measurement import Measurement
from autotune.measurement.workbench import Workbench
from autotune.outputs import write_outputs
from autotune.outputs.patch import Emission
from autotune.outputs.writing import ensure_room
from autotune.profiling.profile import Profile
from autotune.result import Cost, Result, TargetFacts
from autotune.trials.space import build_space
from autotune.verdict import Verdict
from autotune.workload.target import Target, load_target

__all__ = ["Options", "profile", "search", "search_target"]


def profile(
    path: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    listener: Listener | None = None,
    options: Options | None = None,
) -> Result:
    """Measure where a training program spends its time, and the most that could be gained.

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
    target = load_target(path, arguments)
    return _through(target, listener or Listener(), options or Options(), _profile)


def search(
    path: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    listener: Listener | None = None,
    options: Options | None = None,
) -> Result:
    """Profile a training program, search for faster settings, and judge the best in turns with it.

    Arguments and errors are those of `profile`; with `options.out`, the tuned program is written
    there too.
    """
    return search_target(load_target(path, arguments), listener or Listener(), options or Options())


def search_target(target: Target, listener: Listener, options: Options) -> Result:
    """`search`, of a target that is at hand."""
    return _through(target, listener, options, _search)


def _profile(context: Context) -> tuple[Result, Emission]:
    profiled, _ = _diagnosed(context)
    return _result(context, profiled), Emission()


def _search(context: Context) -> tuple[Result, Emission]:
    profiled, baseline = _diagnosed(context)
    space = build_space(profiled, allow=context.options.allow, given=context.options.knobs)
    space = vet(context, profiled, space)
    context.listener.space(space)
    trials = try_configs(context, profiled, space, baseline)
    verdict, emission = judge(context, profiled, space, trials)
    result = replace(
        _result(context, profiled),
        space=space,
        trials=tuple(trials),
        verdict=verdict,
        edits=emission.edits,
        patch=emission.patch,
        cost=_cost(context, profiled, len(trials), verdict),
    )
    return result, emission


def _through(
    target: Target,
    listener: Listener,
    options: Options,
    stages: Callable[[Context], tuple[Result, Emission]],
) -> Result:
    """Take `target` through `stages` on a workbench of its own, and write down what comes out."""
    began = time.monotonic()
    if options.out is not None:
        ensure_room(options.out)
    limit = options.seconds(START_SHARE, START_SECONDS)
    with Workbench(
        target, seed=options.seed, out=options.out, first_start_limit_seconds=limit
    ) as bench:
        context = Context(
            target=target,
            options=options,
            listener=listener,
            machine=detect(options.device),
            bench=bench,
            began=began,
        )
        result, emission = stages(context)
    if options.out is not None:
        write_outputs(result, emission, target, options.out)
    return result


def _diagnosed(context: Context) -> tuple[Profile, Measurement]:
    profiled, baseline = profile_program(context)
    context.listener.profiled(profiled, diagnose(profiled))
    return profiled, baseline


def _result(context: Context, profiled: Profile) -> Result:
    target = context.target
    ran = datetime.now(UTC).timestamp() - context.spent_seconds
    return Result(
        target=TargetFacts(
            kind=target.kind,
            name=target.name,
            path=target.path,
            arguments=target.arguments,
            source_sha256=target.source_sha256,
        ),
        profile=profiled,
        diagnosis=diagnose(profiled),
        protection=context.bench.protection,
        command=tuple(sys.argv),
        started_at=datetime.fromtimestamp(ran, UTC).isoformat(timespec="seconds"),
        seed=context.options.seed,
    )


def _cost(context: Context, profiled: Profile, trials: int, verdict: Verdict) -> Cost:
    seconds = context.spent_seconds
    steps = None
    if verdict.outcome == "faster" and verdict.speedup:
        saved = profiled.step_seconds * (1 - 1 / verdict.speedup.estimate)
        steps = round(seconds / saved) if saved > 0 else None
    return Cost(seconds=seconds, trials=trials, break_even_steps=steps)
