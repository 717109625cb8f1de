"""The outermost modules of a run that it trains, as they were found in its first steps."""

import weakref
from itertools import combinations

from torch import nn

SOON = 40  # backward passes and steps


class Models:
    """Modules that were called to train, none of which this keeps alive.

    Attributes:
        trained: those that were set up as the Setup says.
        inside: what is inside an outermost module that was called, with that one's class.
        made_anew: the program makes a model for each few steps (a copy for each task of
            meta-learning), so that no model is there for good.
    """

    def __init__(self) -> None:
        self.trained: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self.inside: weakref.WeakKeyDictionary[nn.Module, type] = weakref.WeakKeyDictionary()
        self.made_anew = False
        # With the moments at which it was called first and last.
        self._called: weakref.WeakKeyDictionary[nn.Module, tuple[int, int]] = (
            weakref.WeakKeyDictionary()
        )

    def note(self, module: nn.Module, moment: int) -> None:
        """Remember that `module` was called to train; `moment` counts backward passes and steps."""
        first, _ = self._called.get(module, (moment, moment))
        self._called[module] = first, moment

    def known(self) -> list[nn.Module]:
        """Those that were called to train, in the order of their first calls."""
        return list(self._called)

    def forget(self) -> None:
        """What was called so far was of another training."""
        self._called.clear()

    def unwrap(self, part: nn.Module, kind: type) -> list[nn.Module]:
        """The models of class `kind` that have `part` inside; they are none any more."""
        found = [
            each for each in self._called if type(each) is kind and part in set(each.modules())
        ]
        for each in found:
            del self._called[each]
        return found

    def look(self) -> None:
        """Find out, after some steps, whether models are `made_anew`: one of the same kind and
        shapes soon came after another, which was called no more.
        """
        for (old, (began, ended)), (new, (first, _)) in combinations(self._called.items(), 2):
            if ended < first < began + SOON and _shapes(old) == _shapes(new):
                self.made_anew = True


def _shapes(module: nn.Module) -> tuple[type, list[tuple[int, ...]]]:
    return type(module), [tuple(parameter.shape) for parameter in module.parameters()]
