"""What torch's compiler sees of modules while they are looked for: nothing of ours."""

import sys
from collections.abc import Callable
from typing import Any, cast

from torch import nn

from autotune.workload.live import Live


def untraced(hook: Callable[..., Any]) -> Callable[..., Any]:
    """`hook` as torch's compiler leaves it alone: where a compiled function breaks off at what it
    stands for, its own code would be compiled, and what it notes not be noted. That is there
    where runs are forked from; to import it for this alone takes seconds.
    """
    compiler: Any = sys.modules.get("torch._dynamo")
    return hook if compiler is None else cast("Callable[..., Any]", compiler.disable(hook))


def hide(live: Live, own_call: Any, hook: Any, *, put_back: Callable[[], bool]) -> None:
    """Take `hook` off the calls of all modules while anything is traced: what was traced with it
    would be compiled anew once it is gone.
    """
    compiler: Any = sys.modules.get("torch._dynamo.callback")
    if compiler is None:
        return
    handler = compiler.callback_handler
    start, end = handler.run_start_callbacks, handler.run_end_callbacks
    hidden = False

    def run_start_callbacks(*args: Any) -> None:
        nonlocal hidden
        hidden = nn.Module.__call__ is hook
        if hidden:
            nn.Module.__call__ = own_call  # type: ignore[method-assign]
        start(*args)

    def run_end_callbacks(*args: Any) -> None:
        if hidden and put_back():
            nn.Module.__call__ = hook  # type: ignore[method-assign]
        end(*args)

    live.patch(handler, "run_start_callbacks", run_start_callbacks)
    live.patch(handler, "run_end_callbacks", run_end_callbacks)
