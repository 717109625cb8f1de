"""The Trainer: a plain training loop that takes its settings from a Config."""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from autotune.errors import UsageError
from autotune.interrupts import Interrupts
from autotune.knobs import setup_for
from autotune.knobs.config import read_settings
from autotune.knobs.knob import Config
from autotune.trainer.arguments import check_arguments, check_epochs, device_of
from autotune.trainer.checkpoint import check_alike, load_states, read_checkpoint, write_checkpoint
from autotune.trainer.feed import Collate, Feed
from autotune.trainer.history import Epoch, History, tell
from autotune.trainer.losses import Losses, Position
from autotune.trainer.progress import ProgressLine
from autotune.trainer.randomness import random_state, set_random_state
from autotune.trainer.step import (
    MakeOptimizer,
    MakeScheduler,
    Stepper,
    TrainingStep,
    build_optimizer,
    build_scheduler,
    evaluating,
    implement,
    is_per_step,
    prepare_model,
    step_scheduler,
)
from autotune.workload.program.training_program import training_step as default_training_step
from autotune.workload.setup import Setup


class Trainer:
    """Trains a model, in place, as a Config says; without one, as a plain loop would.

    Args:
        model: what is trained; it is moved to `device`.
        dataset: map-style (shuffled anew every epoch) or iterable (taken as it comes).
        training_step: the mean loss of (model, batch), the batch being on the device. By default:
            of a dict, the `.loss` of what `model(**batch)` returns; of (inputs, targets), cross
            entropy where the targets are integers, else the mean squared error.
        optimizer: an optimizer over the model's parameters, a function that builds one from the
            model, or None for AdamW with torch's defaults.
        batch_size: samples per optimizer step, unless the Config has another.
        validation_dataset: what `fit` validates on after each epoch, and `evaluate` by default;
            without gradients, so a loss must not need them.
        collate: makes a batch of a list of samples; None leaves that to torch.
        config: a value for each knob that is to differ from torch's own, as in `tuned.toml`.
        seed: the data's order is a function of the seed and the epoch. torch's global generator
            (dropout, initial weights) is the caller's.
        device: by default "cuda" where there is one, else "cpu".
        scheduler: builds a learning rate scheduler from the optimizer.
        scheduler_per: what it steps after, "epoch" or "step".
        clip_norm: the largest norm of the gradients; None does not clip them.
        callbacks: each a `Callback`, an object with one of its methods, or a function, which is
            called as `on_step`.
        progress: whether to show a line on stderr; None shows it on a terminal.

    Attributes:
        history: the `History` of the last or the running `fit`.
        tuning: the Result of the search that found the settings, where one did.

    Raises:
        UsageError: an argument cannot be taken, or settings do not fit together or this optimizer.
    """

    def __init__(
        self,
        model: nn.Module,
        dataset: Any,
        *,
        training_step: TrainingStep | None = None,
        optimizer: torch.optim.Optimizer | MakeOptimizer | None = None,
        batch_size: int = 32,
        validation_dataset: Any = None,
        collate: Collate | None = None,
        config: Config | None = None,
        seed: int = 0,
        device: str | torch.device | None = None,
        scheduler: MakeScheduler | None = None,
        scheduler_per: Literal["epoch", "step"] = "epoch",
        clip_norm: float | None = None,
        callbacks: Sequence[object] = (),
        progress: bool | None = None,
    ) -> None:
        self._seed, self._progress, self._callbacks = seed, progress, tuple(callbacks)
        more = {"clip_norm": clip_norm, "callbacks": self._callbacks}
        check_arguments(model, dataset, training_step, optimizer, batch_size, **more)
        self._per_step = is_per_step(scheduler_per)
        self.model = model
        self.device = device_of(device)
        self.history = History()
        self.tuning: Any = None
        self._dataset = dataset
        self._validation_dataset = validation_dataset
        self._batch_size = int((config or {}).get("batch_size", batch_size))
        self._position = Position()
        self._config = dict(config or {})
        self._setup = setup_for(self._config)
        self._feed = partial(Feed, batch_size=batch_size, collate=collate, setup=self._setup)
        prepare_model(model, self._setup, self.device)
        self.optimizer = build_optimizer(model, optimizer, self._setup)
        self.scheduler = build_scheduler(scheduler, self.optimizer, per_step=self._per_step)
        self._losses = Losses(self.history.losses, self._position, self.device)
        self._stepper = self._build_stepper(training_step or default_training_step, clip_norm)

    @classmethod
    def from_config(
        cls, path: str | PathLike[str], model: nn.Module, dataset: Any, **arguments: Any
    ) -> "Trainer":
        """A Trainer with the settings of a `tuned.toml`; `arguments` as for `Trainer`.

        Raises:
            UsageError: the file cannot be read or holds no settings; else as `Trainer`.
        """
        return cls(model, dataset, config=read_settings(Path(path)), **arguments)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._config.items())
        verdict = getattr(self.tuning, "verdict", None)
        found = f", search: {verdict.outcome.replace('_', ' ')}" if verdict else ""
        return (
            f"Trainer({type(self.model).__name__}, batch_size={self._batch_size}, "
            f"epoch={self.epoch}, settings: {settings or 'as they are'}{found})"
        )

    @property
    def epoch(self) -> int:
        """Epochs trained to their end, those before a `load` included."""
        return self._position.epoch

    def fit(self, epochs: int) -> History:
        """Train for `epochs` more epochs; one left in the middle is finished as the first of them.

        An interrupt (Ctrl-C) is raised between two steps: the trainer can be saved, or fitted on.

        Raises:
            ProgramError: a loss is not a finite number.
            UsageError: that is no number of epochs, or the training step does not return a loss.
        """
        check_epochs(epochs)
        self.history = History()
        self._losses = Losses(self.history.losses, self._position, self.device)
        with (
            self._stepper.prepared(),
            Interrupts() as interrupts,
            ProgressLine(self._progress) as progress,
            self._losses,
        ):
            feed = self._feed(self._dataset, seed=self._seed, batch_size=self._batch_size)
            for _ in range(epochs):
                began = time.perf_counter()
                samples = self._train_epoch(feed, interrupts, progress)
                self._end_epoch(samples, time.perf_counter() - began, interrupts)
        return self.history

    def evaluate(self, dataset: Any = None) -> float:
        """The mean loss over `dataset` (by default the validation data), in evaluation mode.

        Raises:
            UsageError: there is no dataset, or it is empty.
        """
        dataset = self._validation_dataset if dataset is None else dataset
        if dataset is None:
            raise UsageError(
                "there is nothing to evaluate on",
                "Give evaluate() a dataset, or tune() and Trainer() a validation_dataset.",
            )
        total, samples = torch.zeros((), device=self.device), 0
        with self._stepper.prepared(), evaluating(self.model), torch.no_grad():
            for parts in self._feed(dataset, setup=self._setup_for(dataset)).start():
                for part in parts:
                    size = self._stepper.count(part)
                    total += self._stepper.loss(part) * size
                    samples += size
        if not samples:
            raise UsageError("the dataset to evaluate on is empty")
        return total.item() / samples

    def save(self, path: str | PathLike[str]) -> None:
        """Write all that the training goes on from, atomically; callbacks may at any step.

        Raises:
            ProgramError: a loss is not a finite number.
            UsageError: the file cannot be written.
        """
        self._losses.read()
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict() if self.scheduler else None,
            "scaler": self._stepper.scaler.state_dict(),
            "random": random_state(),
            "position": asdict(self._position),
            "seed": self._seed,
            "batch_size": self._batch_size,
        }
        write_checkpoint(Path(path), state)

    def load(self, path: str | PathLike[str], *, trusted: bool = False) -> None:
        """Take up the training that was saved: `fit` goes on as if it had not stopped.

        The data's order is taken over too, and so are the states of the process's random numbers.
        Loader workers start anew: in the middle of an epoch, a dataset that draws random numbers in
        them draws others of the same distribution.

        Args:
            path: what `save` wrote.
            trusted: also load objects other than torch's own: only from files of your own.

        Raises:
            UsageError: it is no checkpoint, or of another model, optimizer or scheduler.
        """
        state = read_checkpoint(Path(path), trusted=trusted)
        check_alike(path, state, scheduled=bool(self.scheduler), batch_size=self._batch_size)
        load_states(path, state, self.model, self.optimizer)
        implement(self.optimizer, self._setup)
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self._stepper.load_scaler(state["scaler"])
        self._position = Position(**state["position"])
        self._seed = state["seed"]
        set_random_state(state["random"])

    def _setup_for(self, dataset: Any) -> Setup:
        """Workers were compared with the training dataset: one of another kind goes without."""
        alike = type(dataset) is type(self._dataset)
        return self._setup if alike else replace(self._setup, loader={})

    def _train_epoch(self, feed: Feed, interrupts: Interrupts, progress: ProgressLine) -> int:
        """Train what is left of the epoch; returns the samples of that."""
        self.model.train()
        position, began, samples = self._position, time.perf_counter(), 0
        for parts in self._stepper.ahead(feed.start(position.epoch, position.step)):
            with interrupts.held():
                loss, size = self._stepper.step(parts)
                if self.scheduler is not None and self._per_step and self._stepper.stepped():
                    self.scheduler.step()
                position.step += 1
                self._losses.add(loss, size)
            samples += size
            self._losses.check()
            for callback in self._callbacks:
                tell(callback, "on_step", self, loss)
            if progress.due():
                self._losses.read()
                speed = samples / (time.perf_counter() - began)
                progress.draw(position, steps=feed.steps, loss=self._losses.last, speed=speed)
        self._losses.read()
        if not position.step:
            raise UsageError("the dataset is empty", "give one with at least one sample")
        return samples

    def _end_epoch(self, samples: int, seconds: float, interrupts: Interrupts) -> None:
        """Validate, step the scheduler, and tell the callbacks."""
        position = self._position
        validation_loss = None if self._validation_dataset is None else self.evaluate()
        epoch = Epoch(
            number=position.epoch + 1,
            loss=position.loss_sum / position.samples,
            validation_loss=validation_loss,
            samples=samples,
            seconds=seconds,
        )
        with interrupts.held():
            if self.scheduler is not None and not self._per_step:
                step_scheduler(self.scheduler, epoch)
            position.begin_next_epoch()
            self.history.epochs.append(epoch)
        for callback in self._callbacks:
            tell(callback, "on_epoch", self, epoch)

    def _build_stepper(self, training_step: TrainingStep, clip_norm: float | None) -> Stepper:
        return Stepper(
            self.model,
            self.optimizer,
            training_step,
            setup=self._setup,
            device=self.device,
            clip_norm=clip_norm,
            part_size=max(1, self._batch_size // self._setup.micro_batches),
        )
