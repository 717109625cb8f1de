"""Tensors whose memory the program reads as if it lay in the usual order, where it does not: what
it gets is wrong, and nothing says so.
"""

import functools
import sys
from typing import Any

import torch

from autotune.workload.live import Live
from autotune.workload.program.framework import is_installed


def install(live: Live) -> None:
    """Stop the program where its own code reads one that is channels last; libraries know how."""
    for owner in (torch.Tensor, torch):
        live.patch(owner, "as_strided", _refusing(owner.as_strided))


def _refusing(own: Any) -> Any:
    @functools.wraps(own)
    def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        by = sys._getframe(1).f_code.co_filename
        if _is_reordered(tensor) and not is_installed(by):
            raise RuntimeError(
                "autotune stopped it, since it would have gone on with wrong numbers: as_strided() "
                "of a tensor that is channels last reads its memory as if it lay in the usual order"
            )
        return own(tensor, *args, **kwargs)

    return read


def _is_reordered(tensor: torch.Tensor) -> bool:
    return (
        tensor.dim() == 4
        and not tensor.is_contiguous()
        and tensor.is_contiguous(memory_format=torch.channels_last)
    )
