"""What the C library does with memory that this process frees: glibc's own knobs, and a look at
whether they hold (mallopt(3), mallinfo(3)).
"""

import ctypes
import platform
from functools import cache

# Parameters of mallopt(3) with the values of this, and what they are called in the environment.
KEEPING = ((-1, -1, "MALLOC_TRIM_THRESHOLD_"), (-4, 0, "MALLOC_MMAP_MAX_"))
# Beyond what glibc by itself ever takes from the heap (32 MiB): asking for it moves no threshold.
_BEYOND = 1 << 26


class _Counts(ctypes.Structure):
    """What mallinfo2(3) gives, of which `arena` is the size of the heaps and `uordblks` what of
    them is in use, in bytes.
    """

    _fields_ = (
        ("arena", ctypes.c_size_t),
        ("of_pieces", ctypes.c_size_t * 6),
        ("uordblks", ctypes.c_size_t),
        ("of_the_free", ctypes.c_size_t * 2),
    )


def has_glibc() -> bool:
    """Whether the C library of this process is one that has these knobs."""
    return platform.libc_ver()[0] == "glibc"


def keep_freed_memory() -> None:
    """Have this process keep all memory that it frees from now on, for what it needs next."""
    if has_glibc():
        for parameter, value, _ in KEEPING:
            ctypes.CDLL(None).mallopt(parameter, value)


def keeps_freed_memory() -> bool:
    """Whether much memory comes from the heap, and stays there when it is freed; seen by taking
    some that is never touched.

    False where that cannot be seen: another C library, glibc before 2.33, another allocator.
    """
    library = _library()
    if library is None:
        return False
    before = library.mallinfo2()
    piece = library.malloc(_BEYOND)
    if not piece:
        return False
    taken = library.mallinfo2()
    library.free(piece)
    left = library.mallinfo2()
    in_heap = taken.uordblks - before.uordblks >= _BEYOND
    return bool(in_heap and left.arena == taken.arena)


@cache
def _library() -> ctypes.CDLL | None:
    if not has_glibc():
        return None
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.mallinfo2.restype = _Counts
    return library
