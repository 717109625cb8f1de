"""Each operation of torch's as it is carried out, after autocast and below autograd."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class EachOperation(TorchDispatchMode):
    """Shows each operation, and what it is given (in order, and by name), to `note` before it is
    carried out.
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
