"""What can be asked of any batch: its tensors, how many samples it has, its parts, a copy of it."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from autotune.workload.loading import containers

_PLAIN = (str, bytes, int, float)
# How batches of graphs name the number of samples in them (torch_geometric, DGL).
_OWN_COUNTS = ("num_graphs", "batch_size")


def tensors(batch: object) -> list[torch.Tensor]:
    """The tensors of a batch, in order; of an object that is no container, of its attributes."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    found = containers.leaves(batch)
    own = [leaf for leaf in found if issubclass(type(leaf), torch.Tensor)]
    if own or len(found) != 1:
        return own
    found = containers.leaves(containers.attributes(found[0]))
    return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]


def count_samples(batch: object, batch_size: int | None = None) -> int:
    """Samples in a batch: the first dimension of its tensors, preferring the one equal to the
    loader's batch size; in an incomplete batch the one that most of them have of those that are
    not larger (beside rows of tokens or nodes). Lists of samples (images of several sizes) are
    counted themselves. Where a batch is one sample, its rows are no samples (a sentence's words).
    """
    first = batch[0] if type(batch) in (tuple, list) and batch else batch  # type: ignore[index]
    if isinstance(first, torch.Tensor) and first.dim() and first.size(0) == batch_size:
        return batch_size  # the usual case, and the hot one
    own = _own_count(first)
    if own is not None:
        return own
    listed = _count_listed(batch, batch_size)
    sizes = [tensor.shape[0] for tensor in tensors(batch) if tensor.dim()]
    if listed is not None or not sizes:
        return listed or batch_size or 1
    if batch_size == 1 or (batch_size is not None and batch_size in sizes):
        return batch_size
    some = [size for size in sizes if 0 < size < (batch_size or 0)]
    if some:
        return max((some.count(size), size) for size in some)[1]
    return sizes[0]


def _own_count(batch: object) -> int | None:
    """Samples that a batch of a library's class says it has: of graphs, of which each has nodes."""
    for name in _OWN_COUNTS:
        if hasattr(type(batch), name) and type(count := getattr(batch, name, None)) is int:
            return count
    return None


def _count_listed(batch: object, batch_size: int | None) -> int | None:
    """Samples of a batch that is a list of them, or one list for each part of a sample; None where
    it is neither, such as a list of what was stacked.
    """
    parts = list(batch.values()) if isinstance(batch, Mapping) else batch
    if not isinstance(parts, (list, tuple)) or not parts:
        return None
    rows = parts is batch and _are_alike(parts)
    listed = isinstance(parts[0], (list, tuple)) and bool(parts[0])
    if batch_size and (
        (rows and len(parts) == batch_size)
        or (listed and len(parts[0]) == batch_size)
        or all(_has_offsets(each, batch_size) for each in parts)
    ):
        return batch_size
    several = listed or (rows and isinstance(parts[0], Mapping))
    if not several or _are_stacked(parts):
        return None
    if not listed:
        return len(parts)
    if rows and not _are_alike(parts[0]):
        return len(parts)
    count = len(parts[0])
    as_long = all(_length(each) == count for each in parts)
    return count if as_long and count <= (batch_size or count) else None


def _has_offsets(part: object, batch_size: int) -> bool:
    """Whether it is samples in one row, with where each begins, as an EmbeddingBag has them."""
    if not (isinstance(part, (list, tuple)) and all(map(torch.is_tensor, part))):
        return False
    begins = {each.dim() == 1 and each.shape[0] == batch_size for each in part}
    return begins == {True, False}


def _length(part: object) -> int | None:
    """How many samples have such a part: a list with an entry for each, or a tensor with a row."""
    if isinstance(part, torch.Tensor):
        return part.shape[0] if part.dim() else None
    return len(part) if isinstance(part, (list, tuple)) else None


def _are_alike(samples: list[Any] | tuple[Any, ...]) -> bool:
    """Whether these may be so many samples, rather than the parts of one."""
    kinds = {(at.dtype, at.dim()) if torch.is_tensor(at) else type(at) for at in samples}
    return len(kinds) == 1


def _are_stacked(parts: list[Any] | tuple[Any, ...]) -> bool:
    """Whether all of these are tensors, in whatever containers, that hold as many samples."""
    sizes = {
        leaf.shape[0] if isinstance(leaf, torch.Tensor) and leaf.dim() else None
        for leaf in containers.leaves(parts)
    }
    return len(sizes) == 1 and None not in sizes


def describe(batch: object) -> tuple[str, ...]:
    """Each tensor's dtype and shape, "float32[32, 3, 64, 64]"."""
    return tuple(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors(batch))


def digest(batch: object) -> tuple[tuple[int, ...], ...]:
    """A digest of each row of each of the batch's leaves: tensors, arrays, texts and numbers.

    What is none of these is left out: objects may differ in two runs that mean the same.
    """
    leaves = containers.leaves(batch, _is_column)
    if not any(map(_is_data, leaves)):
        own = [vars(leaf) for leaf in leaves if hasattr(leaf, "__dict__")]
        leaves = containers.leaves(own, _is_column)
    return tuple(_rows(leaf) for leaf in leaves if _is_data(leaf))


def _is_column(leaf: object) -> bool:
    """Whether it is a list of a text or a number for each sample."""
    return isinstance(leaf, list) and bool(leaf) and all(isinstance(each, _PLAIN) for each in leaf)


def _is_data(leaf: object) -> bool:
    plain = isinstance(leaf, (torch.Tensor, *_PLAIN))
    return plain or hasattr(leaf, "__array__") or _is_column(leaf)


def _rows(leaf: Any) -> tuple[int, ...]:
    """A digest of each row of a leaf, or of the whole where it has no rows."""
    if not isinstance(leaf, torch.Tensor):
        if not hasattr(leaf, "__array__"):
            column = leaf if _is_column(leaf) else [leaf]
            return tuple(_hash(repr(each).encode()) for each in column)
        try:
            leaf = torch.as_tensor(leaf)
        except (TypeError, ValueError):  # an array of texts or objects
            return (_hash(repr(leaf).encode()),)
    kind = f"{leaf.dtype}{list(leaf.shape[1:])}".encode()
    if not leaf.numel():
        return (_hash(kind),)
    dense = (leaf if leaf.layout is torch.strided else leaf.to_dense()).detach().cpu()
    data = memoryview(dense.contiguous().reshape(-1).view(torch.uint8).numpy())
    count = leaf.shape[0] if leaf.dim() else 1
    width = len(data) // count
    return tuple(_hash(kind, data[row * width : (row + 1) * width]) for row in range(count))


def _hash(*parts: Any) -> int:
    hashed = hashlib.blake2b(digest_size=8)
    for part in parts:
        hashed.update(part)
    return int.from_bytes(hashed.digest())


def count_bytes(batch: object) -> int:
    """Bytes of the batch's tensors."""
    return bytes_of(tensors(batch))


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """How much memory the numbers of `tensors` take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def address(tensor: torch.Tensor) -> int | None:
    """Where its memory begins; None of what has none of its own: a sparse one has several, one
    within `torch.func` another's.
    """
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # NotImplementedError among them
        return None


def to_device(batch: Any, device: torch.device, *, non_blocking: bool = False) -> Any:
    """A copy of the batch with its tensors on `device`; of packed sequences the lengths stay on the
    host, where torch wants them.
    """

    def moved(leaf: Any) -> Any:
        own = isinstance(leaf, (torch.Tensor, PackedSequence))
        return leaf.to(device, non_blocking=non_blocking) if own else leaf

    return containers.changed(batch, moved, lambda leaf: isinstance(leaf, PackedSequence))


def without_last(batch: Any) -> Any:
    """The batch without its last sample; as it is where it has only one."""
    leaves, together = containers.taken_apart(batch)
    total = _length_along(leaves)
    if total < 2:
        return batch
    return together([leaf[:-1] if _is_along(leaf, total) else leaf for leaf in leaves])


def split(batch: Any, parts: int) -> list[tuple[Any, float]]:
    """The batch in up to `parts` micro-batches along the first dimension, each with its share of
    the samples.

    Tensors whose first dimension is not the batch's are given to every part as they are. A batch
    of a class that is no container stays whole.
    """
    leaves, together = containers.taken_apart(batch)
    total = _length_along(leaves)
    if not total:
        return [(batch, 1.0)]
    sizes = [len(chunk) for chunk in torch.arange(total).chunk(parts)]
    whole = len(sizes)
    split_leaves = [at.split(sizes) if _is_along(at, total) else [at] * whole for at in leaves]
    return [
        (together([leaf[index] for leaf in split_leaves]), size / total)
        for index, size in enumerate(sizes)
    ]


def _length_along(leaves: list[Any]) -> int:
    """How many samples the first tensor with rows among these has; 0 where there is none."""
    rows = (leaf.shape[0] for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim())
    return next(rows, 0)


def _is_along(leaf: Any, total: int) -> bool:
    """Whether it is a tensor with a row for each of so many samples."""
    return isinstance(leaf, torch.Tensor) and bool(leaf.dim()) and leaf.shape[0] == total


def first_tensor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """The first tensor among a call's arguments, looked for in containers too."""
    found = tensors((args, kwargs))
    return found[0] if found else None
