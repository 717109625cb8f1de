"""How many operations a step starts: small ones take longer to start than to compute."""

from collections import Counter
from types import CodeType
from typing import Any

import torch

from autotune.source.edits import Place
from autotune.workload.found import Operations
from autotune.workload.looks.dispatch import EachOperation
from autotune.workload.places import users_code

# To find out who starts one costs as much as a few of them.
_ONE_IN = 8


class Starts:
    """Counts the operations that torch starts, and notes from where; a `Watch`."""

    def __init__(self) -> None:
        self._mode: Any = _Counting()
        self._steps = 1

    def begin(self) -> None:
        """See `Watch`."""
        self._mode.__enter__()

    def step(self) -> None:
        """See `Watch`."""
        self._steps += 1

    def end(self) -> Operations:
        """See `Watch`."""
        self._mode.__exit__(None, None, None)
        per_step, starters = self._mode.count / self._steps, self._mode.starters
        if not starters:
            return Operations(per_step=per_step)
        code, most = starters.most_common(1)[0]
        return Operations(
            per_step=per_step,
            place=Place(path=code.co_filename, line=code.co_firstlineno),
            function=code.co_name,
            share=most / sum(starters.values()),
        )


class _Counting(EachOperation):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.starters: Counter[CodeType] = Counter()

    def note(self, *_: Any) -> None:
        self.count += 1
        in_backward = torch._C._current_graph_task_id() >= 0
        if self.count % _ONE_IN == 0 and not in_backward and (code := users_code()):
            self.starters[code] += 1
