"""A recipe: learn handwritten digits that are read from a slow store, one request for each.

The store stands for images behind a network: a request waits 8 ms, about a round trip to another
region, and keeps no processor busy meanwhile. The digits are scikit-learn's, each also moved one
pixel to either side.
"""

import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset


def in_float32(given):
    """`given` with float32 for the bfloat16 that autocast gives."""
    if isinstance(given, torch.Tensor):
        return given.float() if given.dtype == torch.bfloat16 else given
    if type(given) is dict:
        return {name: in_float32(part) for name, part in given.items()}
    if type(given) in (list, tuple):
        return type(given)(in_float32(part) for part in given)
    return given


torch.set_num_threads(1)

BATCH_SIZE = 32
ROUND_TRIP_SECONDS = 0.008
HELD_OUT = 128


class RemoteDigits(Dataset):
    def __init__(self, images, labels):
        self.images = images
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        time.sleep(ROUND_TRIP_SECONDS)
        image = torch.from_numpy(self.images[index]).unsqueeze(0)
        return image, int(self.labels[index])


def read_digits():
    """All digits in an order without meaning, 8 x 8 pixels between 0 and 1."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    return digits.images[order].astype(np.float32) / 16, digits.target[order]


def build_dataset():
    images, labels = read_digits()
    images, labels = images[HELD_OUT:], labels[HELD_OUT:]
    moved = [images, np.roll(images, 1, axis=2), np.roll(images, -1, axis=2)]
    return RemoteDigits(np.concatenate(moved), np.tile(labels, len(moved)))


def build_validation_dataset():
    images, labels = read_digits()
    return RemoteDigits(images[:HELD_OUT], labels[:HELD_OUT])


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )


def build_optimizer(model):
    model.to(memory_format=torch.channels_last)
    return torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)


# The training program.
import argparse
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset


def training_step(model: nn.Module, batch: Any) -> torch.Tensor:
    """The loss of one batch.

    Of a dict, the loss that the model returns; of (inputs, targets), cross entropy where targets
    are integers and the mean squared error where they are not.
    """
    if isinstance(batch, Mapping):
        return model(**batch).loss
    inputs, targets = batch
    outputs = in_float32(model(inputs))
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


@torch.no_grad()
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
        "numpy": np.random.get_state(legacy=False),
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
    for group in checkpoint["optimizer"]["param_groups"]:
        group.update(fused=True, foreach=False)
    optimizer.load_state_dict(checkpoint["optimizer"])
    random.setstate(checkpoint["random"])
    np.random.set_state(checkpoint["numpy"])
    torch.set_rng_state(checkpoint["torch"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(checkpoint["cuda"])
    return int(checkpoint["epoch"])


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train remote_store.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE)
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
    np.random.seed(seed)
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
        num_workers=32,
        persistent_workers=True,
    )
    validation_loader = DataLoader(
        build_validation_dataset(),
        batch_size=arguments.batch_size,
    )
    model = build_model().to(device)
    optimizer = build_optimizer(model)
    first_epoch = load_checkpoint(arguments.checkpoint, model, optimizer) if arguments.resume else 0

    for epoch in range(first_epoch, arguments.epochs):
        model.train()
        progress = Progress(f"{epoch + 1}/{arguments.epochs}", device)
        for batch in loader:
            batch = to_device(batch, device)
            optimizer.zero_grad()
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                loss = training_step(model, batch)
            loss.backward()
            optimizer.step()
            progress.add(loss, count_samples(batch))
            if progress.steps % arguments.log_every == 0:
                print(progress)
        print(progress)
        validation_loss = validate(model, validation_loader, device)
        print(f"validation loss {validation_loss:.4f}")
        if arguments.checkpoint is not None:
            save_checkpoint(arguments.checkpoint, model, optimizer, epoch + 1)


if __name__ == "__main__":
    main()
