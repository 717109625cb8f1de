"""autotune from Python: `profile`, `search` and `tune`."""

import functools
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune import flow
from autotune.errors import UsageError
from autotune.knobs.knob import Config, Value
from autotune.listener import Listener
from autotune.result import Result
from autotune.trainer import Trainer
from autotune.trainer.arguments import check_arguments
from autotune.trainer.step import make_endless
from autotune.workload.program.target import OBJECTS, Target
from autotune.workload.samples.asked import files_of

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.utils.data import Dataset

# Epochs that a measured run may train; it is ended long before.
_MANY_EPOCHS = 1_000_000


def profile(
    target: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    out: str | os.PathLike[str] | None = None,
    device: str | None = None,
    seed: int = 0,
    progress: bool | None = None,
    listener: Listener | None = None,
) -> Result:
    """Measure where a training program spends its time, and the most that could be gained.

    Args:
        target: a training script, a recipe module, or a module's dotted name.
        arguments: what the program is called with.
        out: directory for `result.json` and `report.html`, which go into `profile` below it where a
            search has written there; None writes nothing.
        device: "cpu" or "cuda"; the best there is by default.
        seed: of every random stream that the program leaves unseeded.
        progress: whether to show on stderr how it goes; None shows it on a terminal and in a
            notebook.
        listener: is told how it goes, in the place of the screen.

    Raises:
        UsageError: the target is none.
        ProgramError: the program itself failed.
        MeasurementError: nothing could be measured.
    """
    options = flow.Options(out=_folder(out), device=device, seed=seed)
    return _run(
        lambda told: flow.profile(target, arguments, listener=told, options=options),
        progress,
        listener,
    )


def search(
    target: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    budget: str | float = "5m",
    trials: int | None = None,
    out: str | os.PathLike[str] | None = None,
    device: str | None = None,
    seed: int = 0,
    allow: str = "equivalent",
    knobs: Mapping[str, Sequence[Value] | None] | None = None,
    storage: str | None = None,
    sampler: str = "profile",
    patience: str | float | None = None,
    memory_limit: str | int | None = None,
    energy: bool = False,
    fresh: bool = False,
    progress: bool | None = None,
    listener: Listener | None = None,
) -> Result:
    """Find faster settings for a training program, and judge them against the program as it is, in
    turns.

    Args:
        target: a training script, a recipe module, or a module's dotted name.
        arguments: what the program is called with.
        budget: time for all of it, "60s", "5m", or seconds.
        trials: trials at most.
        out: directory for the result, the report, the settings, the patch and the tuned program;
            None writes nothing.
        device: "cpu" or "cuda"; the best there is by default.
        seed: of the search, and of every random stream that the program leaves unseeded.
        allow: the most that may change about the training: "identical", "equivalent" or
            "different".
        knobs: values to search for a knob, by its name, instead of those it offers itself; None
            leaves it out.
        storage: an Optuna storage URL; searches on any machines share a database's. A journal file
            in `out` by default.
        sampler: who proposes what to try: "profile" (what the profile lets one expect), or Optuna's
            "tpe", "gp" or "random".
        patience: how long 1 % of expected gain may take, "15s" or seconds; a twentieth of the
            budget by default.
        memory_limit: what settings may need at their peak, their workers' included, "8G" or bytes.
        energy: set energy per sample against speed too, where the GPU reports it; what is handed
            back is chosen by speed all the same.
        fresh: begin anew, with no trials, even where the same search was done already; only a fresh
            search that was interrupted goes on.
        progress: whether to show on stderr how it goes; None shows it on a terminal and in a
            notebook.
        listener: is told how it goes, in the place of the screen.

    Raises:
        UsageError: an argument cannot be taken.
        ProgramError: the program itself failed.
        MeasurementError: nothing could be measured.
    """
    options = flow.Options.said(
        budget=budget,
        allow=allow,
        out=_folder(out),
        trials=trials,
        device=device,
        seed=seed,
        knobs={name: None if of is None else tuple(of) for name, of in (knobs or {}).items()},
        storage=storage,
        sampler=sampler,
        patience=patience,
        memory_limit=memory_limit,
        energy=energy,
        fresh=fresh,
    )
    run = functools.partial(flow.search, target, arguments, options=options)
    return _run(lambda told: run(listener=told), progress, listener, options)


def tune(
    model: "nn.Module",
    dataset: "Dataset[Any]",
    *,
    training_step: "Callable[[nn.Module, Any], torch.Tensor] | None" = None,
    optimizer: "torch.optim.Optimizer | Callable[[nn.Module], torch.optim.Optimizer] | None" = None,
    batch_size: int = 32,
    validation_dataset: "Dataset[Any] | None" = None,
    collate: Callable[[list[Any]], Any] | None = None,
    budget: str | float = "60s",
    allow: str = "equivalent",
    out: str | os.PathLike[str] | None = None,
    device: str | None = None,
    seed: int = 0,
    progress: bool | None = None,
    listener: Listener | None = None,
    **trainer_options: Any,
) -> Trainer:
    """Find fast settings for training `model` on `dataset`, and give a Trainer that has them.

    The search trains copies in other processes: the model comes back with the weights, buffers and
    mode that it came with, and so do the random streams. Objects defined in `__main__` or a
    notebook travel too.

    Args:
        model: the module to train.
        dataset: map-style or iterable, of samples that `collate` (torch's own by default) makes
            batches of.
        training_step: the loss of (model, batch), a scalar tensor; by default cross entropy for (x,
            integer y), mean squared error for (x, float y), and for a dict the `.loss` of what
            `model(**batch)` returns.
        optimizer: one built on the model, or a function that builds it; AdamW by default.
        batch_size: samples per optimizer step; the search keeps it unless `allow` is "different".
        validation_dataset: what `evaluate()` takes.
        collate: makes a batch of a list of samples.
        budget: time for the search, "60s", "5m", or seconds.
        allow: the most that may change about the training: "identical", "equivalent" or
            "different".
        out: directory for the result, the report and the settings; None writes nothing.
        device: "cpu" or "cuda"; the best there is by default.
        seed: of the training, and of the search.
        progress: whether to show on stderr how the search, and then the training, goes; None shows
            it on a terminal, and the search in a notebook too.
        listener: is told how the search goes, in the place of the screen.
        trainer_options: passed on to `Trainer` (`scheduler`, `clip_norm`, `callbacks`, ...).

    Returns:
        A Trainer of the objects given, with the settings that won; `trainer.tuning` is the search's
        Result. Of a search without an answer a warning tells, and the Trainer is as it would be
        without one.

    Raises:
        UsageError: an argument cannot be taken, or an object cannot be sent to another process.
        ProgramError: the training itself failed.
        MeasurementError: nothing could be measured.
    """
    check_arguments(model, dataset, training_step, optimizer, batch_size, **trainer_options)
    build = functools.partial(
        Trainer,
        model,
        dataset,
        training_step=training_step,
        optimizer=optimizer,
        batch_size=batch_size,
        validation_dataset=validation_dataset,
        collate=collate,
        device=device,
        seed=seed,
        progress=progress,
        **trainer_options,
    )
    folder = _folder(out)
    options = flow.Options.said(budget=budget, allow=allow, out=folder, device=device, seed=seed)
    search = functools.partial(flow.search_target, _target(build), options=options)
    return _tuned(build, _run(lambda told: search(listener=told), progress, listener, options))


def _folder(out: str | os.PathLike[str] | None) -> Path | None:
    return Path(out) if out else None


def _run(
    run: Callable[[Listener], Result],
    progress: bool | None,
    listener: Listener | None,
    counted_down: flow.Options | None = None,
) -> Result:
    from autotune.cli.calls import run_shown  # rich is not needed before

    budget_seconds = counted_down.budget_seconds if counted_down else None
    return run_shown(run, progress=progress, listener=listener, budget_seconds=budget_seconds)


def _target(build: "functools.partial[Trainer]") -> Target:
    """The training of what `build` makes, ready to travel to another process."""
    given = (*build.args, *build.keywords.values(), *build.keywords.get("callbacks", ()))
    return Target(
        kind=OBJECTS,
        path="",
        directory=os.getcwd(),
        objects=_pickled(functools.partial(_train, build)),
        files=files_of(given),
    )


def _tuned(build: Callable[..., Trainer], result: Result) -> Trainer:
    verdict = result.verdict
    if verdict is not None and verdict.outcome == "failed":
        warnings.warn(f"the search has no answer: {verdict.reason}", stacklevel=3)
    trainer = build(config=verdict.config if verdict and verdict.outcome == "faster" else {})
    trainer.tuning = result
    return trainer


def _call(folders: Sequence[str], pickled: bytes, config: Config) -> None:
    import cloudpickle

    sys.path += [folder for folder in folders if folder not in sys.path]
    cloudpickle.loads(pickled)(config)


def _train(build: Callable[..., Trainer], config: Config) -> None:
    """What a measured process does in the place of a script."""
    trainer = build(config=config, progress=False)
    if trainer.scheduler is not None:
        make_endless(trainer.scheduler, trainer.optimizer)
    trainer.fit(_MANY_EPOCHS)


def _pickled(function: Callable[..., Any]) -> bytes:
    """`function`, to be called where all that can be imported here can be imported too."""
    import cloudpickle

    folders = [os.path.abspath(folder) for folder in sys.path]
    try:
        pickled = bytes(cloudpickle.dumps(function))
        return bytes(cloudpickle.dumps(functools.partial(_call, folders, pickled)))
    except Exception as error:  # whatever the user's own objects raise
        raise UsageError(
            "the model, the dataset or a function of the training cannot be sent to another"
            f" process: {error}",
            "Open files, locks and connections when they are first used, not when the object is"
            " made.",
        ) from error
