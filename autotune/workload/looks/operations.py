"""How many operations a step starts: small ones take longer to start than to compute."""

from collections import Counter
from types import CodeType
from typing import Any

import torch

from autotune.source.edits import Place
from autotune.workload.found import Operations
from autotune.workload.looks.watch import EachOperation
from autotune.workload.places import users_code

# To find out who starts one costs as much as a few of them.
_ONE_IN = 8


class Starts(EachOperation):
    """Counts the operations that torch starts, and notes from where; a `Watch`."""

    def __init__(self) -> None:
        super().__init__()
        self._steps, self._count = 1, 0
        self._starters: Counter[CodeType] = Counter()

    def step(self) -> None:
        self._steps += 1

    def end(self) -> Operations:
        self.stop()
        per_step = self._count / self._steps
        if not self._starters:
            return Operations(per_step=per_step)
        code, most = self._starters.most_common(1)[0]
        return Operations(
            per_step=per_step,
            place=Place(path=code.co_filename, line=code.co_firstlineno),
            function=code.co_name,
            share=most / self._starters.total(),
        )

    def note(self, *_: Any) -> None:
        self._count += 1
        in_backward = torch._C._current_graph_task_id() >= 0
        if self._count % _ONE_IN == 0 and not in_backward and (code := users_code()):
            self._starters[code] += 1
