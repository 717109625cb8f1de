"""Going over the batches of an epoch with no model: which of them are the largest."""

import time
from typing import Any

import torch
from torch.utils import _pytree as pytree

from autotune.workload.conversation import Survey, Unsupported
from autotune.workload.inspect import length_of
from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.seams.loader import draw
from autotune.workload.window import BatchSize, Sizes

# How deep tensors are looked for in a batch that is an object of a library's, as graphs are.
_DEPTH = 4


def survey(live: Live, command: Survey) -> Sizes | Unsupported:
    """What the batches of an epoch are like. Those that are to be trained on stay in `live.fed`.

    A batch needs much memory for its elements, or for its largest sample: attention takes the
    square of a text's length. So the largest by either is kept.
    """
    loader = live.fed.loader()
    if loader is None or live.leading_loader is None:
        return Unsupported(reason="no DataLoader gives the training its batches")
    if live.drawn_in_thread:
        return Unsupported(reason="a thread of the program's own draws its batches")
    found = _Largest(loader.batch_size)
    try:
        ended = _go_over(loader, command.seconds, found)
    except Exception as error:  # noqa: BLE001 - the program's own; its loop must not catch it
        return Unsupported(reason=(str(error).strip() or type(error).__name__).splitlines()[-1])
    if not found.most_elements:
        return Unsupported(reason="nothing in its batches has a size that could be looked at")
    chosen = found.ascending()
    live.fed.largest = [batch for _, batch in chosen]
    return Sizes(
        looked_at=found.count,
        of=found.count if ended else length_of(loader),
        varied=found.varied,
        first_elements=found.first[0],
        batches=tuple(size for size, _ in chosen),
    )


def _go_over(loader: Any, seconds: float, found: "_Largest") -> bool:
    """Whether that was the whole of an epoch."""
    ends = time.perf_counter() + seconds
    iterator = loader._get_iterator()  # iter() would start persistent workers' epoch anew
    try:
        while not found.count or time.perf_counter() < ends:
            found.add(draw(iterator))
    except StopIteration:
        return True
    finally:
        if loader.num_workers:
            iterator._shutdown_workers()
    return False


class _Largest:
    """The first of the batches that come, and the largest of them in two ways."""

    def __init__(self, batch_size: int | None) -> None:
        self.count = self.most_elements = 0
        self.varied = False
        self._batch_size = batch_size
        self.first = (0, 0)  # elements in all, and in the largest sample
        self._kept: dict[str, tuple[tuple[int, int], Any]] = {}

    def add(self, batch: Any) -> None:
        """One more batch."""
        samples = batches.count_samples(batch, self._batch_size)
        size = elements, sample = _size(batch, samples)
        self.count += 1
        self.most_elements = max(self.most_elements, elements)
        self.first = size if self.count == 1 else self.first
        incomplete = self._batch_size is not None and samples < self._batch_size
        self.varied = self.varied or (size != self.first and not incomplete)
        for name, order in (("sample", (sample, elements)), ("elements", (elements, sample))):
            if name not in self._kept or order > self._kept[name][0]:
                self._kept[name] = order, batch
        self._kept.setdefault("first", ((0, 0), batch))

    def ascending(self) -> list[tuple[BatchSize, Any]]:
        """Those that were kept, from few elements to many, each of its size once."""
        found = {}
        for _, batch in self._kept.values():
            samples = batches.count_samples(batch, self._batch_size)
            size, shapes = _size(batch, samples), batches.describe(_tensors(batch))
            found[size] = BatchSize(shapes=shapes, samples=samples, elements=size[0]), batch
        return [found[size] for size in sorted(found)]


def _size(batch: Any, samples: int) -> tuple[int, int]:
    """The elements of a batch, and of its largest sample; of texts, their letters."""
    found = _tensors(batch)
    if not found:
        texts = [len(each) for each in pytree.tree_leaves(batch) if isinstance(each, str)]
        return sum(texts), max(texts, default=0)
    rows = (
        each.numel() // samples if each.dim() and each.shape[0] == samples else each.numel()
        for each in found
    )
    return sum(each.numel() for each in found), max(rows)


def _tensors(batch: Any, depth: int = _DEPTH) -> list[torch.Tensor]:
    """The tensors of a batch, looked for in a library's objects too."""
    found = batches.tensors(batch)
    if found or not depth:
        return found
    leaves = (each for each in pytree.tree_leaves(batch) if not callable(each))
    inside = [vars(each) for each in leaves if hasattr(each, "__dict__")]
    return [each for values in inside for each in _tensors(list(values.values()), depth - 1)]
