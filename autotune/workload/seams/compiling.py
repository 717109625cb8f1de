"""What torch's compiler sees of modules while they are looked for: nothing of ours."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from autotune.workload.live import Live


def untraced(hook: Any) -> Callable[..., Any]:
    """`hook` as torch's compiler leaves it alone: where a compiled function breaks off at what it
    stands for, its own code would be compiled, and what it notes not be noted.

    A mark on its code costs nothing. A torch that has none goes through a wrapper, which takes some
    microseconds at each call, and imports the compiler at the first, as torch's own optimizers do
    where they are built.
    """
    frames: Any = torch._C._dynamo.eval_frame
    if not hasattr(frames, "_FrameExecStrategy"):
        left_alone: Callable[..., Any] = torch._disable_dynamo(hook)  # type: ignore[attr-defined]
        return left_alone
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(hook.__code__, frames._FrameExecStrategy(skip, skip))
    hook._torchdynamo_disable = True  # where it would be inlined
    return hook  # type: ignore[no-any-return]


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
