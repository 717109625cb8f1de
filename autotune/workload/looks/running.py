"""Which of the program's own functions its steps run, however it comes to call them."""

import os
import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

from torch.utils.data._utils import fetch

from autotune.source.edits import Place
from autotune.workload.looks.watch import Watch
from autotune.workload.places import is_users


class Running(Watch):
    """The user's functions that the thread which trains begins, or goes on with (a generator), in
    most steps, each by the line on which it begins. What runs once an epoch is left out, as is what
    makes samples, here or in workers.
    """

    def __init__(self) -> None:
        self._steps = 1
        self._in_step = set[CodeType]()
        self._seen = Counter[CodeType]()
        self._fetching = 0
        self._before: Any = None

    def begin(self) -> None:
        self._before = sys.getprofile()
        sys.setprofile(self._note)

    def step(self) -> None:
        self._steps += 1
        self._seen.update(self._in_step)
        self._in_step.clear()

    def end(self) -> tuple[Place, ...]:
        sys.setprofile(self._before)
        self._seen.update(self._in_step)
        most = (code for code, steps in self._seen.items() if 2 * steps > self._steps)
        return tuple(
            Place(path=os.path.abspath(code.co_filename), line=code.co_firstlineno) for code in most
        )

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_name == "fetch" and code.co_filename == fetch.__file__:
            self._fetching += 1 if event == "call" else -1
        elif event == "call" and not self._fetching and is_users(code.co_filename):
            self._in_step.add(code)
