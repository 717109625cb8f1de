"""What an optimizer trains, and which of torch's implementations of it runs: the loop, foreach or
fused.
"""

from collections.abc import Iterator

import torch

from autotune.errors import UsageError


def weights_of(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """All that it has been given to train, in its order."""
    return (weight for group in optimizer.param_groups for weight in group["params"])


def set_implementation(
    optimizer: torch.optim.Optimizer,
    *,
    fused: bool | None = None,
    foreach: bool | None = None,
) -> None:
    """Make a built optimizer run as if it had been built with `fused` and `foreach`.

    None leaves one as it is; switching one on switches the other off, as torch demands. Best
    called before the first step; an optimizer that has stepped keeps its state, which is moved to
    where the implementation wants it.

    Raises:
        UsageError: the optimizer has no such implementation, or both were asked for.
    """
    given = {"fused": fused, "foreach": foreach}
    wanted = {name: value for name, value in given.items() if value is not None}
    if fused and foreach:
        raise UsageError(
            "an optimizer cannot be fused and foreach at once", "choose one of the two"
        )
    for name, value in wanted.items():
        if name not in optimizer.defaults:
            raise UsageError(f"{type(optimizer).__name__} has no {name} implementation")
        other = "foreach" if name == "fused" else "fused"
        for settings in (optimizer.defaults, *optimizer.param_groups):
            settings[name] = value
            if value and settings.get(other):
                settings[other] = False
    if wanted and "fused" in optimizer.defaults:
        _follow_fused(optimizer)


def _follow_fused(optimizer: torch.optim.Optimizer) -> None:
    """Bring along what torch's constructors and `_init_group` derive from `fused`."""
    fused = bool(optimizer.defaults.get("fused"))
    # Read by GradScaler: a fused step unscales by itself.
    optimizer._step_supports_amp_scaling = fused  # type: ignore[attr-defined]
    if fused:
        optimizer._need_device_dtype_check_for_fused = True  # type: ignore[attr-defined]
    for group in optimizer.param_groups:
        on_device = group.get("fused") or group.get("capturable")
        for parameter in group["params"]:
            step = optimizer.state.get(parameter, {}).get("step")
            if isinstance(step, torch.Tensor):
                step = step.to(parameter.device, torch.float32) if on_device else step.cpu()
                optimizer.state[parameter]["step"] = step
