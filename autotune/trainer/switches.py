"""Switches of the whole process, thrown for a while and then put back."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch

from autotune.workload.system.blas import blas_threads, limit_blas_threads
from autotune.workload.system.processor import flushes_denormals


def _set_cudnn(name: str) -> Callable[[Any], None]:
    return lambda value: setattr(torch.backends.cudnn, name, value)


# All that a Setup's `process` may switch and that can be switched back: how it is read and written.
_SWITCHES: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (torch.get_num_threads, torch.set_num_threads),
    (blas_threads, limit_blas_threads),
    (flushes_denormals, torch.set_flush_denormal),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (lambda: torch.backends.cudnn.benchmark, _set_cudnn("benchmark")),
    (lambda: torch.backends.cudnn.allow_tf32, _set_cudnn("allow_tf32")),
)


@contextmanager
def switched(switches: Sequence[Callable[[], None]]) -> Iterator[None]:
    """Throw `switches`; put back what they changed at the end."""
    if not switches:
        yield
        return
    before = []
    for read, write in _SWITCHES:
        with suppress(
            RuntimeError
        ):  # set through torch's newer interface, which the old cannot read
            before.append((read, write, read()))
    try:
        for switch in switches:
            switch()
        yield
    finally:
        for read, write, value in before:
            if read() != value:
                write(value)
