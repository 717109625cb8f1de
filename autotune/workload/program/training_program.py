"""The training program that is written for a recipe: real code, of which it gets what it needs.

What stands between the two dashed lines is put below the recipe's source. A statement, or a line of
arguments, whose first line ends in `#: if NAME` is written only where the recipe offers NAME, and
with `#: unless NAME` only where it does not. "validation" stands for `build_validation_dataset`;
"numpy" is offered by a recipe that imports it. `recipe.standalone_program` does this.
"""

# The program prints, and torch leaves some of its calls untyped: no concern of a recipe's program.
# ruff: noqa: PLW2901, T201
# mypy: disable-error-code="assignment,no-any-return,no-untyped-call"
# ---------------------------------------------------------------------------------------- program
import argparse
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np  #: if numpy
import torch
from torch import nn
from torch.nn import functional  #: unless training_step
from torch.utils.data import DataLoader, IterableDataset


def training_step(model: nn.Module, batch: Any) -> torch.Tensor:  #: unless training_step
    """The loss of one batch.

    Of a dict, the loss that the model returns; of (inputs, targets), cross entropy where targets
    are integers and the mean squared error where they are not.
    """
    if isinstance(batch, Mapping):
        return model(**batch).loss
    inputs, targets = batch
    outputs = model(inputs)
    if targets.is_floating_point():
        return functional.mse_loss(outputs.reshape(targets.shape).to(targets.dtype), targets)
    return functional.cross_entropy(outputs, targets.long())


def to_device(batch: Any, device: torch.device) -> Any:
    """The batch with its tensors on the device, in the containers that it came in."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: to_device(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):  # a namedtuple
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(value, device) for value in batch)
    return batch


def count_samples(batch: Any) -> int:
    """Samples in the batch: the length of the first tensor in it."""
    while isinstance(batch, (Mapping, list, tuple)):
        batch = next(iter(batch.values() if isinstance(batch, Mapping) else batch))
    return len(batch)


class Progress:
    """Mean loss and speed of an epoch; the loss stays on the device, because reading it waits."""

    def __init__(self, epoch: str, device: torch.device) -> None:
        self.epoch = epoch
        self.loss = torch.zeros((), device=device)
        self.samples = 0
        self.steps = 0
        self.started = time.perf_counter()

    def add(self, loss: torch.Tensor, samples: int) -> None:
        """Count one step."""
        self.loss += loss.detach() * samples
        self.samples += samples
        self.steps += 1

    def __str__(self) -> str:
        loss = self.loss.item() / max(self.samples, 1)
        speed = self.samples / (time.perf_counter() - self.started)
        return f"epoch {self.epoch}  step {self.steps}  loss {loss:.4f}  {speed:.1f} samples/s"


@torch.no_grad()  #: if validation
def validate(model: nn.Module, loader: DataLoader[Any], device: torch.device) -> float:
    """The mean loss over the validation data."""
    model.eval()
    total = torch.zeros((), device=device)
    samples = 0
    for batch in loader:
        size = count_samples(batch)
        total += training_step(model, to_device(batch, device)) * size
        samples += size
    return total.item() / max(samples, 1)


def save_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int
) -> None:
    """Write all that training goes on from; the file appears whole or not at all."""
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "random": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  #: if numpy
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    torch.save(checkpoint, temporary)
    temporary.replace(path)


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Take up the training that `path` was written from; returns the epochs behind it."""
    # The file is this program's own: it holds random states, which are more than weights.
    checkpoint = torch.load(path, map_location="cpu", weights_only=False)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    random.setstate(checkpoint["random"])
    np.random.set_state(checkpoint["numpy"])  #: if numpy
    torch.set_rng_state(checkpoint["torch"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(checkpoint["cuda"])
    return int(checkpoint["epoch"])


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train RECIPE.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE)  #: if BATCH_SIZE
    parser.add_argument("--batch-size", type=int, default=32)  #: unless BATCH_SIZE
    parser.add_argument("--lr", type=float, default=1e-3)  #: unless build_optimizer
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoint", type=Path, help="file to write after every epoch")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--log-every", type=int, default=100, help="steps between two lines")
    arguments = parser.parse_args()
    if arguments.resume and arguments.checkpoint is None:
        parser.error("--resume needs --checkpoint")
    return arguments


def seed_everything(seed: int) -> None:
    """Start every stream of random numbers from `seed`."""
    random.seed(seed)
    np.random.seed(seed)  #: if numpy
    torch.manual_seed(seed)


def main() -> None:
    """Train."""
    arguments = parse_arguments()
    seed_everything(arguments.seed)
    device = torch.device(arguments.device)

    dataset = build_dataset()
    loader = DataLoader(
        dataset,
        batch_size=arguments.batch_size,
        shuffle=not isinstance(dataset, IterableDataset),
        collate_fn=collate,  #: if collate
    )
    validation_loader = DataLoader(  #: if validation
        build_validation_dataset(),
        batch_size=arguments.batch_size,
        collate_fn=collate,  #: if collate
    )
    model = build_model().to(device)
    optimizer = build_optimizer(model)  #: if build_optimizer
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)  #: unless build_optimizer
    first_epoch = load_checkpoint(arguments.checkpoint, model, optimizer) if arguments.resume else 0

    for epoch in range(first_epoch, arguments.epochs):
        model.train()
        progress = Progress(f"{epoch + 1}/{arguments.epochs}", device)
        for batch in loader:
            batch = to_device(batch, device)
            optimizer.zero_grad()
            loss = training_step(model, batch)
            loss.backward()
            optimizer.step()
            progress.add(loss, count_samples(batch))
            if progress.steps % arguments.log_every == 0:
                print(progress)
        print(progress)
        validation_loss = validate(model, validation_loader, device)  #: if validation
        print(f"validation loss {validation_loss:.4f}")  #: if validation
        if arguments.checkpoint is not None:
            save_checkpoint(arguments.checkpoint, model, optimizer, epoch + 1)


if __name__ == "__main__":
    main()
# --------------------------------------------------------------------------------- end of program
# What a recipe offers, so that the program above can be checked.
BATCH_SIZE = 32


def build_model() -> nn.Module:
    """A recipe's own."""
    raise NotImplementedError


def build_dataset() -> Any:
    """A recipe's own."""
    raise NotImplementedError


def build_validation_dataset() -> Any:
    """A recipe's own."""
    raise NotImplementedError


def build_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """A recipe's own."""
    raise NotImplementedError


def collate(samples: list[Any]) -> Any:
    """A recipe's own."""
    raise NotImplementedError
