"""Threads of the linear algebra that NumPy and SciPy bring along (OpenBLAS), beside torch's own."""

import threadpoolctl


def blas_threads() -> int:
    """How many of them the process's OpenBLAS may use; 0 where it has none."""
    return max((each["num_threads"] for each in _controller().info()), default=0)


def limit_blas_threads(count: int) -> None:
    """Have each OpenBLAS that is loaded by now use at most `count` threads, from now on."""
    _controller().limit(limits=count)


def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController().select(internal_api="openblas")
