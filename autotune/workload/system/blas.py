"""Threads of the linear algebra that NumPy and SciPy bring along (OpenBLAS), beside torch's own."""

import ctypes
import functools
import os
from typing import Any

import threadpoolctl


@functools.cache
def _name_of(path: str) -> str:
    """By what the library that was loaded from `path` is found again: the file that this leads to;
    where that is another file by now, as in a sandbox, its own name, which it was linked by.
    """
    file = os.path.realpath(path)
    try:
        ctypes.CDLL(file, mode=os.RTLD_NOLOAD)
    except OSError:
        return os.path.basename(path)
    return file


def find_in_a_sandbox() -> None:
    """Have libraries found that were loaded before this process entered a sandbox, by the program's
    own use of `threadpoolctl` too.
    """
    library: Any = threadpoolctl
    library._realpath = _name_of


def blas_threads() -> int:
    """How many of them the process's OpenBLAS may use; 0 where it has none."""
    return max((each["num_threads"] for each in _controller().info()), default=0)


def limit_blas_threads(count: int) -> None:
    """Have each OpenBLAS that is loaded by now use at most `count` threads, from now on."""
    _controller().limit(limits=count)


def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController().select(internal_api="openblas")
