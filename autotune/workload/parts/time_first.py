"""Whether a model's input has time before its samples, as torch's recurrent modules and attention
take it unless `batch_first`: where no loader says it, that is how samples are told from time steps.
"""

from typing import Any

import torch
from torch import nn

from autotune.workload.loading import batches


class TimeFirst:
    """Models whose input has as many time steps and samples, in this order, as the first sequence
    that they work on; by looking once at what that one's module is given.
    """

    def __init__(self) -> None:
        # The names of their classes. A run that compiles them is told these: what is compiled with
        # a hook in it would be compiled anew without it.
        self.kinds: frozenset[str] = frozenset()
        self._looking: list[Any] = []

    def samples(self, model: nn.Module, shape: torch.Size) -> int:
        """Samples in an input of such a shape."""
        along = int(bool(self.kinds) and len(shape) > 1 and _kind(model) in self.kinds)
        return shape[along] if shape else 1

    def look(self, model: nn.Module, shape: torch.Size) -> None:
        """See in the call that now begins what the first module for sequences is given."""
        part = next(filter(_is_time_first, model.modules()), None)
        if part is None or self._looking or _is_compiled(model):
            return

        def seen(_: nn.Module, args: Any, kwargs: Any) -> None:
            given = batches.first_tensor(args, kwargs)
            self.let_go()
            # Of two dimensions it is one sequence, without samples.
            if given is not None and given.dim() == 3 and given.shape[:2] == shape[:2]:
                self.kinds |= {_kind(model)}

        self._looking = [part.register_forward_pre_hook(seen, with_kwargs=True)]

    def let_go(self) -> None:
        """Take out what is still looking: that module was not called."""
        for handle in self._looking:
            handle.remove()
        self._looking = []


def _kind(model: nn.Module) -> str:
    return type(model._modules.get("_orig_mod", model)).__qualname__


def _is_time_first(module: nn.Module) -> bool:
    sequences = (nn.RNNBase, nn.MultiheadAttention)
    return isinstance(module, sequences) and not module.batch_first


def _is_compiled(model: nn.Module) -> bool:
    called = vars(model).get("_compiled_call_impl")
    called = getattr(called, "autotune_inner", called)
    return "_orig_mod" in model._modules or called not in (None, type(model)._call_impl)
