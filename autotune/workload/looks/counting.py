"""Counting the floating point operations of steps, as torch's FlopCounterMode knows them."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from autotune.workload.found import Counted
from autotune.workload.looks.watch import Watch

# Libraries whose operators multiply no matrices, but for those of such names.
_BY_NAME = {"aten", "prim", "prims", "profiler", "c10d", "_c10d_functional", "torchvision"}
_MULTIPLIES = re.compile(
    r"(^|_)[a-z]*mm(_|$)|conv(?!ert)|attention|_rnn(_backward|_layer.*)?$|^_trilinear$"
)
_NO_BACKWARD = -1


class Counting(FlopCounterMode, Watch):
    """Counts floating point operations of matrix products, convolutions, attention and cuDNN's
    recurrent layers, and notes operators that multiply and that nobody counts.

    What Triton kernels do is not seen where no operator is defined for them.
    """

    def __init__(self) -> None:
        aten: Any = torch.ops.aten
        # Backward for what came before, and for the weights.
        formulas = {
            aten._cudnn_rnn: _recurrent,
            aten._cudnn_rnn_backward: lambda *args, **kwargs: 2 * _recurrent(*args, **kwargs),
        }
        super().__init__(display=False, custom_mapping=formulas)
        self._recomputed = False
        self._unknown: Counter[str] = Counter()

    def begin(self) -> None:
        self.__enter__()  # type: ignore[no-untyped-call]

    def end(self) -> Counted:
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        by_operator = self.get_flop_counts().get("Global", {})
        return Counted(
            flops=int(self.get_total_flops()),
            convolution_flops=int(
                sum(flops for name, flops in by_operator.items() if "conv" in str(name))
            ),
            recomputed=self._recomputed,
            unknown=tuple(name for name, _ in self._unknown.most_common()),
        )

    def _count_flops(self, func_packet: Any, out: Any, args: Any, kwargs: Any) -> Any:
        """Called of each operator that is none of others."""
        if func_packet not in self.flop_registry:
            name = str(getattr(func_packet, "_qualified_op_name", func_packet))
            self._unknown.update([name] if _multiplies(name) else [])
        # A backward pass is computed without gradients, unless it is to have some itself.
        elif torch._C._current_graph_task_id() != _NO_BACKWARD and torch.is_grad_enabled():
            self._recomputed = True
        return FlopCounterMode._count_flops(self, func_packet, out, args, kwargs)


def _multiplies(name: str) -> bool:
    """Whether an operator ("aten::mv") may do what is to be counted."""
    library, _, operator = name.rpartition("::")
    return library not in _BY_NAME or bool(_MULTIPLIES.search(operator))


def _recurrent(rows: Sequence[int], weights: Sequence[Sequence[int]], *_: Any, **__: Any) -> int:
    """Operations of cuDNN's LSTM, GRU or RNN by the shapes of its arguments: each matrix times each
    row of the input, of which a packed one has no dimension of its own for time.
    """
    matrices = (math.prod(each) for each in weights if len(each) == 2)
    return 2 * math.prod(rows[:-1]) * sum(matrices)
