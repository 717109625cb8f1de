"""What the warm process has imported ahead of its runs lies in their heap all the same where the
program, or torch for it, imports it.

torch imports its compiler's front at the first optimizer: 23 MB in small pieces, which fill the
gaps that what was made before it has left in the heap (rows of a table, files that were read).
Imported ahead, it leaves these gaps to the training, which then hardly gives memory back to the
system; the same program by itself took 3,000 pages anew in each step, and twice as long.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from autotune.workload.system.heap import bytes_in_use

# Beyond what Python keeps in pools of its own, and less than leaves gaps.
_PIECE_BYTES = 1000
_HEADER_BYTES = 49  # of malloc's and of `bytes`

_ahead: dict[str, int] = {}  # how much of the heap each module has taken
_taken: list[list[bytes]] = []


def import_ahead(name: str) -> None:
    """Import the module called `name`, and note what it takes of the heap."""
    before = bytes_in_use()
    importlib.import_module(name)
    _ahead[name] = max(0, bytes_in_use() - before)


def leave_to_the_program() -> None:
    """Forget that anything has been imported ahead: whoever imports it next has it at once, and as
    much of the heap is taken then as it takes.
    """
    for name, taken in _ahead.items():
        module = sys.modules.pop(name, None)
        if module is not None:
            sys.meta_path.insert(0, _Ahead(module, taken))


class _Ahead:
    """Finds the module that is there, once."""

    def __init__(self, module: ModuleType, taken: int) -> None:
        self._module, self._spec, self._bytes = module, module.__spec__, taken

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        if fullname != self._module.__name__:
            return None
        return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, _: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
        sys.meta_path.remove(self)
        pieces = self._bytes // (_PIECE_BYTES + _HEADER_BYTES)
        _taken.append([bytes(_PIECE_BYTES) for _ in range(pieces)])
