"""What looks on in a few steps that are not timed, or at each operation of torch's as it is carried
out, after autocast and below autograd.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import thread as pools
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from autotune.workload.loading.batches import tensors

SHORT = (torch.bfloat16, torch.float16)


def operations(*names: str) -> frozenset[Any]:
    """Those of torch's that have these names, with whatever arguments; this torch may lack some."""
    aten = torch.ops.aten
    return frozenset(getattr(aten, name) for name in names if hasattr(aten, name))


class Watch:
    """Something that looks on from the end of one step to the end of a later one."""

    def begin(self) -> None:
        """Begin to look on.

        Raises:
            RuntimeError: this torch or this device does not offer it.
        """

    def step(self) -> None:
        """A step has ended that is not the last."""

    def end(self) -> object:
        """Stop, and give what was found."""
        raise NotImplementedError


class _Showing(TorchDispatchMode):
    """Shows each operation of the thread that enters it, and what it is given (in order, and by
    name), to `note` before it is carried out.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def note(self, operation: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Look at one; overridden."""

    def note_result(self, result: Any) -> None:
        """Look at what one has given; overridden."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.note(func, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        self.note_result(result)
        return result


class EachOperation(_Showing, Watch):
    """Those of a model's too that its thread has threads of a pool carry out meanwhile."""

    def begin(self) -> None:
        self.__enter__()

    def end(self) -> object:
        self.__exit__(None, None, None)
        return self.found()

    def found(self) -> object:
        """What was found, once no more is shown."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        item: Any = pools._WorkItem
        self._run, lock = item.run, threading.Lock()

        def run(this: Any, *args: Any, **kwargs: Any) -> None:
            with _Elsewhere(self, lock):
                self._run(this, *args, **kwargs)

        item.run = run
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        item: Any = pools._WorkItem
        item.run = self._run
        super().__exit__(*error)  # type: ignore[no-untyped-call]


class _Elsewhere(_Showing):
    """Hands on what its thread does to `mode`, of another thread, one at a time: what is computed
    of weights, and no batches that are made ready.
    """

    def __init__(self, mode: EachOperation, lock: threading.Lock) -> None:
        super().__init__()
        self._mode, self._lock = mode, lock
        self._is_of_weights = False

    def note(self, operation: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        self._is_of_weights = any(each.requires_grad for each in tensors(given))
        if self._is_of_weights:
            with self._lock:
                self._mode.note(operation, given, named)

    def note_result(self, result: Any) -> None:
        if self._is_of_weights:
            with self._lock:
                self._mode.note_result(result)
