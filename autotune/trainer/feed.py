"""The batches of an epoch: the same in the same order, whatever they are loaded with."""

import inspect
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

from autotune.errors import UsageError
from autotune.trainer.randomness import random_state, set_random_state
from autotune.workload.setup import Setup, loader_arguments

Collate = Callable[[list[Any]], Any]


class Feed:
    """Loads a dataset as a Setup says, in the order that (seed, epoch) gives.

    Args:
        dataset: map-style, which is shuffled if `seed` is given, or iterable, which never is.
        batch_size: samples per optimizer step; each batch is loaded as `setup.micro_batches` parts.
        collate: makes a batch of a list of samples; None leaves that to torch.
        setup: how to load; of which the batch size is not taken.
        seed: of the order and of the workers' random numbers; None for the dataset's own order.

    Raises:
        UsageError: the dataset is empty, or the batch cannot be split into equal parts.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        batch_size: int,
        collate: Collate | None,
        setup: Setup,
        seed: int | None = None,
    ) -> None:
        self.micro_batches = setup.micro_batches
        self.part_size = _part_size(batch_size, setup.micro_batches)
        self._seed = seed or 0
        self._generator = torch.Generator()
        self._sampler = None
        iterable = isinstance(dataset, IterableDataset)
        if not iterable and len(dataset) == 0:
            raise UsageError("the dataset is empty", "give one with at least one sample")
        if not iterable and seed is not None:
            self._sampler = _EpochSampler(dataset, seed)
        own = {
            "dataset": dataset,
            "sampler": self._sampler,
            "collate_fn": collate,
            "generator": self._generator,
        }
        changes = {**setup.loader, "batch_size": self.part_size}
        arguments: dict[str, Any] = loader_arguments(own, changes)
        with warnings.catch_warnings():
            # How many workers are worth it was measured: there may well be more than cores.
            warnings.filterwarnings("ignore", message="This DataLoader will create")
            self.loader: DataLoader[Any] = DataLoader(**arguments)
        self.steps = None if iterable else math.ceil(len(dataset) / batch_size)

    def start(self, epoch: int = 0, skip: int = 0) -> Iterator[list[Any]]:
        """The micro-batches of each step of `epoch`, without its first `skip` steps.

        A map-style dataset is not asked for what is skipped; an iterable one has to be.
        """
        self._generator.manual_seed(_mixed(self._seed, epoch))
        if self._sampler is not None:
            samples = self.part_size * self.micro_batches
            self._sampler.epoch, self._sampler.first = epoch, skip * samples
            skip = 0
        parts = iter(self.loader)
        if skip:
            before = random_state()
            for _ in islice(parts, skip * self.micro_batches):
                pass
            set_random_state(before)
        return iter(lambda: list(islice(parts, self.micro_batches)), [])


class _EpochSampler(RandomSampler):
    """A permutation that depends on the seed and the epoch alone, and can be taken up anywhere."""

    def __init__(self, dataset: Any, seed: int) -> None:
        super().__init__(dataset)
        self._size = len(dataset)
        self._seed = seed
        self.epoch = 0
        self.first = 0

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(_mixed(self._seed, self.epoch))
        order = torch.randperm(self._size, generator=generator)
        yield from order[self.first :].tolist()


def to_device(batch: Any, device: torch.device, *, non_blocking: bool = False) -> Any:
    """The batch with its tensors on `device`, in the containers that it came in."""
    if hasattr(batch, "to"):
        takes_both = non_blocking and _takes_non_blocking(batch)
        return batch.to(device, non_blocking=True) if takes_both else batch.to(device)
    if isinstance(batch, Mapping):
        return {
            name: to_device(value, device, non_blocking=non_blocking)
            for name, value in batch.items()
        }
    if isinstance(batch, (list, tuple)):
        values = [to_device(value, device, non_blocking=non_blocking) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    return batch


def _takes_non_blocking(batch: Any) -> bool:
    """Whether its `to` does: that of a class of the user's own may take the device only."""
    if isinstance(batch, torch.Tensor):
        return True
    with suppress(TypeError, ValueError):  # one of C may not tell
        taken = inspect.signature(batch.to).parameters.values()
        return any(at.name == "non_blocking" or at.kind is at.VAR_KEYWORD for at in taken)
    return False


def _part_size(batch_size: int, parts: int) -> int:
    if batch_size < 1:
        raise UsageError(f"batch_size is {batch_size}", "choose at least 1")
    if batch_size % parts:
        raise UsageError(
            f"a batch of {batch_size} cannot be trained as {parts} equal micro-batches",
            f"choose a batch_size that is a multiple of {parts}",
        )
    return batch_size // parts


def _mixed(seed: int, epoch: int) -> int:
    """One seed from two, so that neighbouring pairs have nothing in common."""
    return random.Random(f"{seed} {epoch}").getrandbits(63)
