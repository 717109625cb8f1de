"""One optimizer step, and one loss, as a Setup wants them computed."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from autotune.errors import UsageError
from autotune.trainer.feed import to_device
from autotune.trainer.history import Epoch
from autotune.trainer.switches import switched
from autotune.workload.loading.ahead import CopiedAhead
from autotune.workload.loading.batches import count_samples
from autotune.workload.parts.optimizer import set_implementation
from autotune.workload.parts.outputs import in_float32
from autotune.workload.setup import Setup

TrainingStep = Callable[[nn.Module, Any], torch.Tensor]
MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]
MakeScheduler = Callable[[torch.optim.Optimizer], LRScheduler]


class Stepper:
    """Computes losses and takes optimizer steps.

    Args:
        training_step: the loss of a model and a batch, the mean over its samples.
        clip_norm: the largest norm of all gradients together; None does not clip.
        part_size: samples of a micro-batch.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        training_step: TrainingStep,
        *,
        setup: Setup,
        device: torch.device,
        clip_norm: float | None,
        part_size: int,
    ) -> None:
        scaled = setup.precision is not None and setup.precision.scaled
        self.scaler = torch.amp.GradScaler(device.type, enabled=scaled)
        self._scale = self.scaler.get_scale()  # after the last step, where it was asked for
        self._called = False  # whether the scaler called the optimizer in the last step
        self._model = model
        self._optimizer = optimizer
        optimizer.register_step_post_hook(self._note_call)
        self._training_step = training_step
        self._setup = setup
        self._device = device
        self._clip_norm = clip_norm
        self._part_size = part_size

    def step(self, parts: list[Any]) -> tuple[torch.Tensor, int]:
        """Train on one batch that came in `parts`; returns its mean loss, detached, and samples.

        Each part counts by its samples, so that an incomplete last batch is trained like any other.
        """
        sizes = [self.count(part) for part in parts]
        samples = sum(sizes)
        set_to_none = self._setup.set_to_none
        self._optimizer.zero_grad(set_to_none=True if set_to_none is None else set_to_none)
        losses = []
        for part, size in zip(parts, sizes, strict=True):
            loss = self.loss(part)
            if len(parts) > 1:
                loss = loss * (size / samples)
            self.scaler.scale(loss).backward()
            losses.append(loss.detach().clone())  # the next replay of a CUDA graph overwrites it
        if self._clip_norm is not None:
            self.scaler.unscale_(self._optimizer)
            nn.utils.clip_grad_norm_(self._model.parameters(), self._clip_norm)
        self._called = False
        self.scaler.step(self._optimizer)
        self.scaler.update()
        return sum(losses[1:], start=losses[0]), samples

    def stepped(self) -> bool:
        """Whether the last step was taken: a scaler leaves out one that overflows. To be asked
        after each step or never.

        A fused optimizer finds that out on the device, which is waited for; another is not called.
        """
        if not getattr(self._optimizer, "_step_supports_amp_scaling", False):
            return self._called
        before, self._scale = self._scale, self.scaler.get_scale()
        return self._scale >= before

    def _note_call(self, *_: Any) -> None:
        self._called = True

    def load_scaler(self, state: dict[str, Any]) -> None:
        """Go on from the scale that was saved, where one was."""
        if state:
            self.scaler.load_state_dict(state)
            self._scale = self.scaler.get_scale()

    def ahead(self, steps: Iterator[list[Any]]) -> Iterator[list[Any]]:
        """The parts of each step, those of the next one on their way to the device where the Setup
        says so; without workers that would only be another order of random numbers.
        """
        setup = self._setup
        if not (setup.prefetch_to_device and setup.loader.get("num_workers")):
            return steps
        return CopiedAhead(self._device).over(steps) if self._device.type == "cuda" else steps

    def loss(self, batch: Any) -> torch.Tensor:
        """The loss of a batch that is still where the loader left it.

        Raises:
            UsageError: the training step returned something else.
        """
        batch = to_device(batch, self._device, non_blocking=self._setup.non_blocking)
        with self._precision():
            loss: object = self._training_step(self._model, batch)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            what = (
                f"a tensor of shape {list(loss.shape)}"
                if isinstance(loss, torch.Tensor)
                else type(loss).__name__
            )
            raise UsageError(
                f"training_step returned {what}, not a scalar loss",
                "return the mean loss of the batch as a tensor of one element",
            )
        return loss.reshape(())

    def count(self, batch: Any) -> int:
        """Samples in a micro-batch."""
        return count_samples(batch, self._part_size)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """The process's switches as the Setup says, and what the model gives on a CPU in float32
        for the loss: autocast leaves sums in bf16 there.
        """
        narrow = self._setup.precision is not None and self._device.type == "cpu"
        widened = self._model.register_forward_hook(_widened) if narrow else None
        try:
            with switched(self._setup.process):
                yield
        finally:
            if widened is not None:
                widened.remove()

    def _precision(self) -> AbstractContextManager[Any]:
        precision = self._setup.precision
        if precision is None:
            return nullcontext()
        return torch.autocast(self._device.type, dtype=getattr(torch, precision.dtype))


def _widened(_model: nn.Module, _given: Any, outcome: Any) -> Any:
    return in_float32(outcome)


def prepare_model(model: nn.Module, setup: Setup, device: torch.device) -> None:
    """Move `model` to `device` and change it as `setup` says, in place."""
    with switched(setup.process):  # for allocations too; some changes throw switches again
        model.to(device)
        for change in setup.model:
            change(model)


def build_optimizer(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | MakeOptimizer | None,
    setup: Setup,
) -> torch.optim.Optimizer:
    """The optimizer itself, the one that a function builds on the model, or AdamW; set up.

    Raises:
        UsageError: it cannot be set up so, or the function returned something else.
    """
    if optimizer is None:
        optimizer = torch.optim.AdamW(model.parameters())
    elif not isinstance(optimizer, torch.optim.Optimizer):
        optimizer = optimizer(model)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise UsageError(
                f"optimizer returned {type(optimizer).__name__}, not a torch.optim.Optimizer"
            )
    implement(optimizer, setup)
    return optimizer


def implement(optimizer: torch.optim.Optimizer, setup: Setup) -> None:
    """Give `optimizer` the implementation that `setup` asks for; loading a state undoes it."""
    arguments: dict[str, Any] = setup.optimizer
    if arguments:
        set_implementation(optimizer, **arguments)


def is_per_step(scheduler_per: str) -> bool:
    """Whether the scheduler steps after each step, and not after each epoch.

    Raises:
        UsageError: it is neither.
    """
    if scheduler_per not in ("epoch", "step"):
        raise UsageError(f'scheduler_per is {scheduler_per!r}, not "epoch" or "step"')
    return scheduler_per == "step"


def build_scheduler(
    make: MakeScheduler | None, optimizer: torch.optim.Optimizer, *, per_step: bool
) -> LRScheduler | None:
    """What `make` builds on `optimizer`, None without one.

    Raises:
        UsageError: it waits for a plateau of a loss that there is once an epoch.
    """
    scheduler = make(optimizer) if make else None
    if per_step and isinstance(scheduler, ReduceLROnPlateau):
        raise UsageError(
            "ReduceLROnPlateau waits for the loss of an epoch", 'leave scheduler_per at "epoch"'
        )
    return scheduler


def make_endless(scheduler: LRScheduler, optimizer: torch.optim.Optimizer) -> None:
    """Have a schedule begin anew where it ends: what is measured trains on for longer than the
    schedule was made for. Its class has the step that does so: its state is saved as before.
    """
    kind, begun = type(scheduler), copy.deepcopy(scheduler.state_dict())
    rates = [copy.deepcopy(group["lr"]) for group in optimizer.param_groups]  # some are tensors

    def step(self: LRScheduler, *args: Any, **kwargs: Any) -> None:
        try:
            kind.step(self, *args, **kwargs)
            ended = any(group["lr"] < 0 for group in optimizer.param_groups)
        except ValueError:  # OneCycleLR, behind its last step
            ended = True
        if ended:
            scheduler.load_state_dict(copy.deepcopy(begun))
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                if isinstance(rate, torch.Tensor):
                    group["lr"].copy_(rate)
                else:
                    group["lr"] = rate

    scheduler.__class__ = type(kind.__name__, (kind,), {"step": step})


def step_scheduler(scheduler: LRScheduler, epoch: Epoch) -> None:
    """Step a scheduler after `epoch`; one that waits for a plateau watches its validation loss."""
    if isinstance(scheduler, ReduceLROnPlateau):
        watched = epoch.loss if epoch.validation_loss is None else epoch.validation_loss
        scheduler.step(watched)
    else:
        scheduler.step()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode; each module is then put back into the mode that it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
