"""The settings that samples are made by, which a training may change: single numbers and texts, and
arrays, whatever other object has their memory too.
"""

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch

from autotune.workload.samples.asked import is_users_class
from autotune.workload.samples.delivery import Setting
from autotune.workload.samples.digests import PLAIN
from autotune.workload.samples.kept import Piece, functions_of
from autotune.workload.samples.of_loader import pieces_to_read

_MOST_ARRAYS = 20

Memory = tuple[int, int]  # the address of its first byte, and that behind its last


def settings_of(loader: Any) -> tuple[Setting, ...]:
    """Those that a DataLoader makes batches by, each by its own name: attributes of objects and of
    classes, and items of dicts whose keys the functions that read them name.
    """
    pieces = list(pieces_to_read(loader).values())
    keys = _constants(pieces)
    found = (_setting(piece, keys) for piece in pieces if isinstance(piece.value, PLAIN))
    named = (each for each in found if each is not None)
    return tuple(dict.fromkeys((*named, *_arrays_of(pieces))))


def _setting(piece: Piece, keys: set[object]) -> Setting | None:
    if piece.part.startswith("["):
        key = piece.part[2:-2]
        of_dict = piece.above is not None and isinstance(piece.above.value, dict)
        return Setting(path=piece.path, name=key) if of_dict and key in keys else None
    owner, name = piece.owner, piece.part.rpartition(".")[2]
    names = () if owner is None else _kinds(owner)
    return Setting(path=piece.path, name=name, kinds=names) if names else None


def _kinds(owner: object) -> tuple[str, ...]:
    """The names of the user's classes among those of `owner`, an object or a class."""
    kinds = (owner if isinstance(owner, type) else type(owner)).__mro__
    return tuple(kind.__name__ for kind in kinds if is_users_class(kind))


def _constants(pieces: Iterable[Piece]) -> set[object]:
    """The texts in the functions that make samples."""
    functions = (each for piece in pieces for each in functions_of(piece.value))
    return {text for code, _ in functions for text in code.co_consts if isinstance(text, str)}


def _arrays_of(pieces: Iterable[Piece]) -> Iterator[Setting]:
    """The attributes of the user's objects that have the memory of an array among `pieces`."""
    arrays = ((memory_of(each.value), each.path) for each in pieces)
    places = list(islice(((memory, path) for memory, path in arrays if memory), _MOST_ARRAYS))
    if not places:
        return
    known: dict[type, bool] = {}  # of hundreds of thousands of objects
    for holder in gc.get_objects():
        kind = type(holder)
        if kind not in known:
            known[kind] = is_users_class(kind)
        if known[kind]:
            for name, value in list(getattr(holder, "__dict__", {}).items()):
                for path in _sharing(memory_of(value), places):
                    yield Setting(path=path, name=name, kinds=_kinds(holder), is_array=True)


def _sharing(memory: Memory | None, places: Sequence[tuple[Memory, str]]) -> Iterator[str]:
    if memory is not None:
        begin, end = memory
        yield from (path for (first, behind), path in places if first < end and begin < behind)


def memory_of(value: object) -> Memory | None:
    """Where all of the memory lies that `value`, an array or a tensor on the CPU, is a part of;
    None of what is none, or what processes share.
    """
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.layout is not torch.strided or value.is_shared():
            return None
        storage = value.untyped_storage()
        return _from(storage.data_ptr(), storage.nbytes())
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray) or isinstance(value, numpy.memmap):
        return None
    whole: Any = value
    while isinstance(whole.base, numpy.ndarray):
        whole = whole.base
    return _from(whole.ctypes.data, whole.nbytes)


def _from(address: int, size: int) -> Memory | None:
    return (address, address + size) if size else None
