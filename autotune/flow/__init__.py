"""The whole of autotune on one page: a target is profiled, searched, judged, and handed back.

Target -> Profile -> Diagnosis -> Space -> Trials -> emitted program -> Verdict -> Result
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime

from autotune.diagnosis import diagnose
from autotune.flow.context import START_SECONDS, START_SHARE, Context, Options
from autotune.flow.device import against_speed, refuse_unknown
from autotune.flow.emitting import unwritable
from autotune.flow.judging import judge
from autotune.flow.measuring import diverges
from autotune.flow.profiling import profile_program
from autotune.flow.sameness import hashes_of_files, kept_answer, search_key
from autotune.flow.suggestion import by_hand
from autotune.flow.trying import (
    Found,
    later_start_seconds,
    open_study,
    overtime,
    try_configs,
)
from autotune.flow.vetting import vet
from autotune.listener import Listener
from autotune.machine import CPU, detect, make_gpu_nodes
from autotune.measurement.measurement import Measurement
from autotune.measurement.processes.device_lock import DeviceLock
from autotune.measurement.readings.faults import told_of_keeping
from autotune.measurement.readings.storage import told_of_memory
from autotune.measurement.workbench import Workbench
from autotune.outputs import write_outputs
from autotune.outputs.others import profile_folder, refuse_others
from autotune.outputs.patch import Emission
from autotune.outputs.room import room
from autotune.profiling.profile import Profile
from autotune.result import Cost, Result, SearchFacts, TargetFacts
from autotune.trials.front import front
from autotune.trials.keeping import is_shared, without_password
from autotune.trials.space import Space, build_space
from autotune.verdict import Verdict
from autotune.workload.program.target import Target, load_target

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
        path: a script, a recipe module, or a module's dotted name.
        arguments: what the program is called with.
        listener: is told how it goes.
        options: what differs from the defaults; with `out`, `result.json` and `report.html` are
            written there, or in `profile` below it where a search has written there.

    Raises:
        UsageError: the target is none.
        ProgramError: the program itself failed.
        MeasurementError: nothing could be measured.
    """
    target, options = load_target(path, arguments), options or Options()
    if options.out is not None:
        options = replace(options, out=profile_folder(options.out))
    return _through(target, listener or Listener(), options, _profile)


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
    result = _result(context, profiled)
    return replace(result, by_hand=by_hand(context, profiled, result.diagnosis[0])), Emission()


def _search(context: Context) -> tuple[Result, Emission | None]:
    if (answered := kept_answer(context)) is not None:
        return answered, None
    if is_shared(context.options.storage):
        from autotune.trials.study import reach  # Optuna, which few searches need so early

        reach(str(context.options.storage))
    profiled, baseline = _diagnosed(context)
    context = context.judging(profiled.windows)
    space = build_space(profiled, allow=context.options.allow, given=context.options.knobs)
    if not diverges(baseline):
        space = vet(context, profiled, space)
    with open_study(context, profiled, space, baseline) as study:
        if not diverges(baseline):
            _tell_of_space(context, profiled, study.space)
        found = try_configs(context, profiled, space, baseline, study)
        space = study.space
        with context.device.held():
            verdict, emission = judge(context, profiled, space, found)
        study.conclude()
    tried = [(each.config, each.outcome) for each in found.trials]
    outcomes = [outcome for _, outcome in tried]
    result = replace(
        _result(context, told_of_keeping(told_of_memory(profiled, outcomes), tried)),
        space=space,
        trials=found.trials,
        search=_facts(context, profiled, found),
        verdict=verdict,
        edits=emission.edits,
        patch=emission.patch,
        cost=_cost(context, profiled, found, verdict),
    )
    return result, emission


def _tell_of_space(context: Context, profiled: Profile, space: Space) -> None:
    context.listener.unwritable(unwritable(context, profiled, space))
    if space.choices and (needed := overtime(context, profiled)):
        spent_seconds = context.spent_seconds
        context.listener.overtime(spent_seconds, later_start_seconds(profiled), needed)
    context.listener.space(space)


def _through(
    target: Target,
    listener: Listener,
    options: Options,
    stages: Callable[[Context], tuple[Result, Emission | None]],
) -> Result:
    """Take `target` through `stages` on a workbench of its own, and write down what comes out,
    unless it is there already.
    """
    if options.out is None:
        return _on_a_bench(target, listener, options, stages)[0]
    with room(options.out):
        refuse_others(options.out, f"{target.name}_tuned.py")
        result, emission = _on_a_bench(target, listener, options, stages)
        if emission is not None:
            write_outputs(result, emission, target, options.out)
    return result


def _on_a_bench(
    target: Target,
    listener: Listener,
    options: Options,
    stages: Callable[[Context], tuple[Result, Emission | None]],
) -> tuple[Result, Emission | None]:
    began = time.monotonic()
    machine = detect(options.device)
    refuse_unknown(options, machine)
    if machine.device != CPU:
        make_gpu_nodes()
    device = DeviceLock(
        machine.device,
        waiting=lambda: listener.stage("waiting for another run of autotune to leave the device"),
    )
    with ExitStack() as open_bench:
        with device.held():  # to load torch takes a core for seconds
            bench = open_bench.enter_context(_bench(target, options))
            bench.warm_up()
        context = Context(
            target=target,
            options=options,
            listener=listener,
            machine=machine,
            bench=bench,
            began=began,
            device=device,
        )
        return stages(context)


def _bench(target: Target, options: Options) -> Workbench:
    return Workbench(
        target,
        seed=options.seed,
        first_start_limit_seconds=options.seconds(START_SHARE, START_SECONDS),
        hides_gpus=options.device == CPU,
    )


def _diagnosed(context: Context) -> tuple[Profile, Measurement]:
    with context.device.held():
        profiled, baseline = profile_program(context)
    context.device.follow(profiled.seen.device_uuid)
    refuse_unknown(context.options, profiled.machine, profiled.seen)
    limit = context.options.memory_limit_bytes
    if limit is not None:
        memory = profiled.memory
        if limit < memory.capacity_bytes:
            memory = replace(memory, capacity_bytes=limit, is_limit=True)
            profiled = replace(profiled, memory=memory)
    context.listener.profiled(profiled, diagnose(profiled))
    return profiled, baseline


def _result(context: Context, profiled: Profile) -> Result:
    target = context.target
    ran = datetime.now(UTC).timestamp() - (time.monotonic() - context.began)
    return Result(
        target=TargetFacts(
            kind=target.kind,
            name=target.name,
            path=target.path,
            module=target.module,
            arguments=target.arguments,
            source_sha256=target.source_sha256,
            root=target.root,
            files=hashes_of_files(target, profiled.seen),
        ),
        profile=profiled,
        diagnosis=diagnose(profiled),
        protection=context.bench.protection,
        command=tuple(map(without_password, sys.argv)),
        started_at=datetime.fromtimestamp(ran, UTC).isoformat(timespec="seconds"),
        seed=context.options.seed,
    )


def _facts(context: Context, profiled: Profile, found: Found) -> SearchFacts:
    return SearchFacts(
        key=search_key(context, profiled.seen),
        sampler=context.options.sampler,
        patience_seconds=context.patience_seconds,
        memory_limit_bytes=context.options.memory_limit_bytes,
        energy=context.options.energy,
        ending=found.ending,
        rematch=found.rematch,
        front=front(found.trials, against_speed(context.options)),
    )


def _cost(context: Context, profiled: Profile, found: Found, verdict: Verdict) -> Cost:
    earlier_seconds = sum(trial.seconds for trial in found.earlier)
    seconds = context.spent_seconds + earlier_seconds
    steps, start_seconds = None, 0.0
    pace = verdict.baseline_samples_per_second
    if verdict.outcome == "faster" and verdict.speedup and pace:
        start_seconds = found.start_seconds(verdict.config)
        step_seconds = profiled.step_seconds * profiled.samples_per_second / pace
        gain = (
            verdict.speedup.low if verdict.is_rough else verdict.speedup.estimate
        )  # as it is told
        saved = step_seconds * (1 - 1 / gain)
        steps = round((seconds + start_seconds) / saved) if saved > 0 else None
    return Cost(
        seconds=seconds,
        trials=len(found.trials),
        break_even_steps=steps,
        start_seconds=start_seconds,
        earlier_trials=len(found.earlier),
        earlier_seconds=earlier_seconds,
    )
