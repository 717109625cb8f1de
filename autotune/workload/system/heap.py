"""What the C library does with memory that this process frees: glibc's own knobs, and a look at
whether they hold (mallopt(3), mallinfo(3)).
"""

import ctypes
import platform
from functools import cache

# Parameters of mallopt(3) with the values of this, and what they are called in the environment.
KEEPING = ((-1, -1, "MALLOC_TRIM_THRESHOLD_"), (-4, 0, "MALLOC_MMAP_MAX_"))
# M_PERTURB: each byte of a new piece is the complement, of a float32 0.75 in all.
_LITTERING = (-6, 0xFF ^ 0x3F)
# Beyond what glibc by itself ever takes from the heap (32 MiB): asking for it moves no threshold.
_BEYOND = 1 << 26
# What counts as that piece in figures of all threads, which take and free some meanwhile.
_MOST_OF_IT = _BEYOND // 2


class _Counts(ctypes.Structure):
    """What mallinfo2(3) gives, of which `arena` is the size of the heaps, `uordblks` what of them
    is in use, and `hblkhd` what was taken beside them, in bytes.
    """

    _fields_ = (
        ("arena", ctypes.c_size_t),
        ("of_pieces", ctypes.c_size_t * 3),
        ("hblkhd", ctypes.c_size_t),
        ("of_small_ones", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("of_the_free", ctypes.c_size_t * 2),
    )


def keep_freed_memory() -> None:
    """Have this process keep all memory that it frees from now on, for what it needs next."""
    for parameter, value, _ in KEEPING:
        _set(parameter, value)


def litter_memory() -> None:
    """Have what this process takes from now on begin with numbers that are not zero, as memory
    does that was used before: nothing else changes for a program that writes before it reads.
    """
    _set(*_LITTERING)


def _set(parameter: int, value: int) -> None:
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(parameter, value)


def keeps_freed_memory() -> bool:
    """Whether much memory comes from the heap, and stays there when freed; False if not seen."""
    counts = _while_taking_much()
    if counts is None:
        return False
    before, taken, left = counts
    in_heap = taken.uordblks - before.uordblks >= _MOST_OF_IT
    return bool(in_heap and taken.arena - left.arena < _MOST_OF_IT)


def can_keep_freed_memory() -> bool:
    """Whether this process has these knobs, and what they do can be seen: not with another C
    library, with glibc before 2.33, or with another allocator put in its place.
    """
    counts = _while_taking_much()
    if counts is None:
        return False
    before, taken, _ = counts
    return bool(_in_use(taken) - _in_use(before) >= _MOST_OF_IT)


def bytes_in_use() -> int:
    """How much of its heaps this process uses; 0 where that cannot be seen."""
    library = _library()
    return int(library.mallinfo2().uordblks) if library is not None else 0


def _in_use(counts: _Counts) -> int:
    return int(counts.uordblks + counts.hblkhd)


def _while_taking_much() -> tuple[_Counts, _Counts, _Counts] | None:
    """The counts before, while and after a piece of memory is taken that is never touched."""
    library = _library()
    if library is None:
        return None
    before = library.mallinfo2()
    piece = library.malloc(_BEYOND)
    if not piece:
        return None
    taken = library.mallinfo2()
    library.free(piece)
    return before, taken, library.mallinfo2()


@cache
def _library() -> ctypes.CDLL | None:
    if platform.libc_ver()[0] != "glibc":
        return None
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.mallinfo2.restype = _Counts
    return library
