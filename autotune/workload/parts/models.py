"""The outermost modules of a run that it trains, as they were found in its first steps."""

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from autotune.workload.loading import batches

# A model that is followed by another one after so many steps is made for a task; one that is called
# so often in a row is there for good.
SOON = 20
# So many times a model is followed by one of its kind, and models are made anew.
SUCCESSIONS = 2
_MOST_KNOWN = 50


@dataclass(slots=True, kw_only=True)
class _Called:
    """A module by its class and the shapes of its weights, with the first and the last of the steps
    in which it was seen to be called.
    """

    kind: tuple[type, tuple[tuple[int, ...], ...]]
    first: int
    last: int
    followed: bool = False  # another one came after it


class Models:
    """Modules that were called to train, which this does not keep alive."""

    def __init__(self) -> None:
        self.trained: weakref.WeakSet[nn.Module] = weakref.WeakSet()  # set up as the Setup says
        # Weights that were moved a little, if the Setup says that; they cannot be compared.
        self.nudged = WeakIdKeyDictionary()
        # What is inside an outermost module that was called, with that one's class.
        self.inside: weakref.WeakKeyDictionary[nn.Module, type] = weakref.WeakKeyDictionary()
        # The program makes a model for each few steps (a copy for each task of meta-learning), so
        # that no model is there for good; of those the last one is kept, to have one to look at.
        self.made_anew = False
        self.latest: nn.Module | None = None
        self.time_first = TimeFirst()  # which of them are given time before samples
        # How many steps were begun with one of them evaluated since the step before.
        self.evaluated, self._evaluated_at = 0, -1
        self._modules: weakref.WeakKeyDictionary[nn.Module, _Called] = weakref.WeakKeyDictionary()
        self._calls: list[_Called] = []  # of those too that are gone
        self._successions = 0
        self._is_settled = False  # that they are not made anew
        self._passing_since = 0

    @property
    def may_be_made_anew(self) -> bool:
        """Whether that is to be found out in further steps."""
        return bool(self._successions) and not (self.made_anew or self._is_settled)

    def note(self, module: nn.Module, step: int) -> None:
        """Remember that `module` was called to train in this step."""
        called = self._modules.get(module)
        if called is None:
            shapes = tuple(tuple(parameter.shape) for parameter in module.parameters())
            called = _Called(kind=(type(module), shapes), first=step, last=step)
            self._modules[module] = called
            self._calls = [*self._calls[1 - _MOST_KNOWN :], called]
        called.last = step

    def note_evaluation(self, step: int) -> None:
        """One of them was evaluated before this step."""
        if self._evaluated_at != step:
            self.evaluated, self._evaluated_at = self.evaluated + 1, step

    def known(self) -> list[nn.Module]:
        """Those that were called to train, in the order of their first calls."""
        known, latest = list(self._modules), self.latest
        if latest is None or any(each is latest for each in known):
            return known
        return [*known, latest]

    def outermost(self) -> list[nn.Module]:
        """Those of them that are in no other one."""
        known = self.known()
        inside = {part for each in known for part in each.modules() if part is not each}
        return [each for each in known if each not in inside] or known

    def forget(self) -> None:
        """What was called so far was of another training."""
        self._modules.clear()
        self._calls.clear()
        self._successions = 0

    def unwrap(self, part: nn.Module, kind: type) -> list[nn.Module]:
        """The models of class `kind` that have `part` inside; they are none any more."""
        found = [at for at in self._modules if type(at) is kind and part in set(at.modules())]
        gone = [self._modules.pop(each) for each in found]
        self._calls = [each for each in self._calls if not any(each is one for one in gone)]
        return found

    def end_step(self, step: int) -> None:
        """See whether a model that is new in this step has followed one of its kind."""
        self.time_first.let_go()
        new = {each.kind for each in self._calls if each.first == step}
        gone = [at for at in self._calls if at.last < step < at.first + SOON and at.kind in new]
        for each in gone:
            each.followed = True
        self._successions += bool(gone)
        self.made_anew = self._successions >= SUCCESSIONS and not self._is_settled

    def pass_by(self, module: nn.Module, step: int) -> bool:
        """`module` is called where models are made anew; whether it is there for good after all:
        one that had been followed by another, or that stays for many steps.
        """
        if self.latest is not module:
            self.latest, self._passing_since = module, step
        called = self._modules.get(module)
        if (called and called.followed) or step - self._passing_since > SOON:
            self.made_anew, self._is_settled, self.latest = False, True, None
        return self._is_settled


class TimeFirst:
    """Models whose input has as many time steps and samples, in this order, as the first sequence
    that they work on, by looking once at what that one's module is given: as torch's recurrent
    modules and attention take it unless `batch_first`. Where no loader says it, that is how samples
    are told from time steps.
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
