"""Digests of the pieces of data that samples are made from, cheap enough for each step."""

import mmap
import random
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import PurePath
from typing import Any

import torch
from torch import nn

PLAIN = (str, bytes, int, float, complex, type(None), PurePath, range)
CONTAINERS = (list, tuple, deque, set, frozenset, dict)
LOOKED_INTO = 20  # items of a container; whether it holds others is seen of more
_MOST_COMPARED = 10_000  # items of a container
_SMALL_BYTES = 2**24  # of a tensor: all of it is read
_LARGE_BYTES = 256 * 2**20  # of an array: every so many of its numbers are read


def digest_of(value: Any) -> int | None:
    """A number that changes where `value` does; None of what processes share (shared and mapped
    memory).

    Comparable within one process only: of containers it is which items they hold, of tensors how
    often they were written, of what is none of these which object it is.
    """
    if isinstance(value, PLAIN):
        return hash(value)
    if isinstance(value, torch.Tensor):
        return _of_tensor(value)
    if isinstance(value, nn.Module):
        return hash(tuple(map(_of_tensor, (*value.parameters(), *value.buffers()))))
    if isinstance(value, CONTAINERS):
        return _of_items(value)
    if isinstance(value, (random.Random, torch.Generator)):
        return _of_generator(value)
    numpy: Any = sys.modules.get("numpy")
    return _of_numpys(numpy, value) if numpy else _which(value)


def _of_tensor(tensor: torch.Tensor) -> int | None:
    """Where it is, and its version: each write counts that up by one, but one that goes round
    autograd (`weights.data[i] = x`, `weights.numpy()[i] = x`), so small ones are read.
    """
    if tensor.is_inference() or tensor.is_shared():
        return None
    strided = tensor.layout is torch.strided
    known = tensor.data_ptr() if strided else 0, tensor._version
    readable = strided and tensor.device.type == "cpu" and tensor.is_contiguous()
    if not readable or tensor.nbytes > _SMALL_BYTES or not tensor.numel():
        return hash(known)
    numbers: Any = tensor.detach().reshape(-1).view(torch.uint8).numpy()
    return hash((*known, zlib.crc32(numbers)))


def _of_items(items: Any) -> int:
    """Those behind the first ones are not looked into one by one. What is made anew of a long list
    may stand at its end (negatives behind the positives): some from all over it are compared.
    """
    if isinstance(items, (dict, deque, set, frozenset)):  # these have to be gone through
        held = iter(_held(items))
        first, others = islice(held, LOOKED_INTO), islice(held, _MOST_COMPARED)
    else:
        step = 1 + len(items) // _MOST_COMPARED
        kind: Any = next((each for each in (list, tuple) if isinstance(items, each)), type(items))
        parts = slice(LOOKED_INTO), slice(LOOKED_INTO, None, step)
        first, others = (kind.__getitem__(items, part) for part in parts)
    return hash((len(items), *map(id, first), *map(_which, others)))


def _which(item: object) -> int:
    """Which object it is; of a container, also which it holds."""
    if isinstance(item, CONTAINERS):
        return hash((id(item), len(item), *map(id, islice(_held(item), LOOKED_INTO))))
    return id(item)


def _held(items: Any) -> Iterable[object]:
    return (item for _, item in items_of(items))


def items_of(container: Any) -> Iterator[tuple[Any, Any]]:
    """The items of a container and what they are found by, read as Python's own class reads them:
    one of the program's may compute what it is asked for.
    """
    if isinstance(container, dict):
        yield from dict.items(container)
    else:
        kind: Any = next(each for each in CONTAINERS if isinstance(container, each))
        yield from enumerate(kind.__iter__(container))


def _of_generator(value: random.Random | torch.Generator) -> int:
    if isinstance(value, random.Random):
        return hash(value.getstate())
    return hash(value.get_state().numpy().tobytes())


def _of_numpys(numpy: Any, value: Any) -> int | None:
    if isinstance(value, numpy.ndarray):
        return None if _is_mapped(numpy, value) else _of_array(numpy, value)
    if isinstance(value, numpy.generic):
        return hash((value.dtype.str, value.tobytes()))
    if isinstance(value, numpy.random.Generator):
        return hash(repr(value.bit_generator.state))
    if isinstance(value, numpy.random.RandomState):
        _, numbers, *rest = value.get_state()
        return hash((numbers.tobytes(), *rest))
    return _which(value)


def _is_mapped(numpy: Any, array: Any) -> bool:
    """Whether `array` shows memory that a file is mapped into."""
    while array is not None:
        if isinstance(array, (numpy.memmap, mmap.mmap)):
            return True
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return False


def _of_array(numpy: Any, array: Any) -> int | None:
    if array.dtype.hasobject:
        return _of_items(array.reshape(-1))
    step = 1 + array.nbytes // _LARGE_BYTES
    if array.flags.f_contiguous:
        array = array.T
    if step > 1 and not array.flags.c_contiguous:
        return None  # it would be copied whole
    return zlib.crc32(numpy.ascontiguousarray(array.reshape(-1)[::step]).view(numpy.uint8))
