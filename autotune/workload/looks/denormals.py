"""Numbers too small for the whole precision of their format, which a CPU computes many times
slower: those that operations give, and those that the optimizer's averages will come to; and
whether they matter.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

from autotune.workload.found import Denormals, Flushed
from autotune.workload.live import Live
from autotune.workload.loading.batches import tensors
from autotune.workload.looks.watch import EachOperation
from autotune.workload.parts.averages import averages
from autotune.workload.places import users_place

# What is at least so large matters where it differs by more than this share of the largest beside
# it: far above what is left of tails, and below what any rounding makes of a number. Chosen.
_LEAST_SIZE, _LEAST_SHARE = 1e-12, 1e-3


class LookingForDenormals(EachOperation):
    """A `Watch` that counts what operations give, but for an optimizer's: what its averages cost is
    timed. The first of a run begins to follow these, from window to window of the program as it is,
    and the second says what will become of them.
    """

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live
        self._count = self._denormal = 0

    @torch.no_grad()
    def found(self) -> Denormals:
        results = self._denormal / max(1, self._count)
        step = self._live.pace.steps
        if self._live.averages is None:
            optimizers = [known() for known in self._live.optimizers]
            there = (each for each in optimizers if each is not None)
            self._live.averages = list(averages(there, step))
            return Denormals(results=results)
        count, coming, after_steps = 0, 0.0, 0
        for each in self._live.averages:
            if step not in each.left:
                each.follow(step)
            lasting, steps = each.lasting()
            each.choose(lasting)
            count, coming = count + each.average.numel(), coming + lasting
            after_steps = max(after_steps, steps if lasting >= 1 else 0)
        share = coming / count if coming >= 1 else 0.0
        return Denormals(results=results, coming=share, after_steps=after_steps)

    def note_result(self, result: Any) -> None:
        for each in () if self._live.stepping else tensors(result):
            if each.is_floating_point() and each.layout is torch.strided:
                least = torch.finfo(each.dtype).smallest_normal
                self._count += each.numel()
                self._denormal += int(((each != 0) & (each.abs() < least)).sum())


class Flushing(EachOperation):
    """A `Watch`: the first place at which a result is another with zeros for denormal numbers. Each
    operation that is given any is carried out once more with zeros, and so on from there, until
    both come to the same, or not; but for an optimizer's: its averages are told by their `eps`.

    Tails of exponentials do, beside what they are added to; products of tiny units (charges,
    kelvins in joules) that are multiplied back to ordinary numbers do not.
    """

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live
        self._flushed: Any = WeakTensorKeyDictionary()
        self._result: Any = None  # of the operation that is carried out, with zeros
        self._writes = False  # whether that writes into what it is given
        self._found = Flushed()

    def found(self) -> Flushed:
        return self._found

    def note(self, operation: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        self._result, self._writes = None, operation._schema.is_mutable
        known = any(each in self._flushed for each in tensors((given, dict(named))))
        if not known or _is_by_chance(operation) or self._live.stepping or self._found.differs:
            return
        args, options = tree_map_only(torch.Tensor, self._with_zeros, (tuple(given), dict(named)))
        self._result = operation(*args, **options)

    def _with_zeros(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy: the operation may write into it."""
        flushed: torch.Tensor = self._flushed.get(tensor, tensor)
        return flushed.clone()

    def note_result(self, result: Any) -> None:
        if self._live.stepping or self._found.differs:
            return
        made = list(tensors(result))
        others = list(tensors(self._result)) if self._result is not None else made
        if self._writes:
            self._forget_parts(made)
        for each, other in zip(made, others, strict=False):
            if each.is_floating_point() and _is_plain(each) and each.numel():
                self._compare(each, _flushed(other))

    def _forget_parts(self, written: Sequence[torch.Tensor]) -> None:
        """What lies in the memory of what was `written` into has other numbers by now: how they
        would be with zeros goes by what they are.
        """
        memory = {each.untyped_storage().data_ptr() for each in written if _is_plain(each)}
        for each in list(self._flushed):
            known = any(each is other for other in written)
            if not known and _is_plain(each) and each.untyped_storage().data_ptr() in memory:
                self._flushed[each] = _flushed(each)

    def _compare(self, own: torch.Tensor, flushed: torch.Tensor) -> None:
        if torch.equal(own.detach(), flushed):
            self._flushed.pop(own, None)
            return
        self._flushed[own] = flushed
        numbers, others = own.detach().double(), flushed.double()
        sizes = numbers.abs().nan_to_num(0.0, 0.0)
        apart = (numbers - others).abs().nan_to_num(torch.inf, torch.inf)
        apart[numbers.isnan() | (numbers == others)] = 0.0
        largest = float(sizes.max())
        if largest >= _LEAST_SIZE and float(apart.max()) > _LEAST_SHARE * largest:
            self._found = Flushed(place=users_place(), size=largest, differs=True)


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided


def _is_by_chance(operation: Any) -> bool:
    """Whether it draws random numbers, or gives memory as it is."""
    drawn = torch.Tag.nondeterministic_seeded in operation.tags
    return drawn or "empty" in operation.overloadpacket.__name__


def _flushed(numbers: torch.Tensor) -> torch.Tensor:
    """`numbers` with zeros for those that are denormal."""
    numbers = numbers.detach()
    least = torch.finfo(numbers.dtype).smallest_normal
    return torch.where(numbers.abs() < least, torch.zeros_like(numbers), numbers)
