"""Each operation of torch's as it is carried out, after autocast and below autograd."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import thread as pools
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from autotune.workload.loading.batches import tensors


class EachOperation(TorchDispatchMode):
    """Shows each operation, and what it is given (in order, and by name), to `note` before it is
    carried out: those of the thread that enters it, and of a model's those that it has threads of a
    pool carry out meanwhile.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def note(self, operation: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Look at one; overridden."""

    def note_result(self, result: Any) -> None:
        """Look at what one has given; overridden."""

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


class _Elsewhere(TorchDispatchMode):
    """Shows what the thread that enters it does for `mode`, of another thread, one at a time: what
    is computed of weights, and no batches that are made ready.
    """

    def __init__(self, mode: EachOperation, lock: threading.Lock) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._mode, self._lock = mode, lock

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if not any(each.requires_grad for each in tensors(args)):
            return func(*args, **(kwargs or {}))
        with self._lock:
            self._mode.note(func, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        with self._lock:
            self._mode.note_result(result)
        return result
