"""What a loop does to weights besides the optimizer's step: averages, targets, decay by hand."""

import ast

from autotune.source.reach import calls_in
from autotune.source.script import last_name

# What moves another net after the step, by the usual names: an average, a target.
_AVERAGING = ("update_parameters", "target", "average", "momentum", "swa", "polyak", "soft_update")
_OF_WEIGHTS = ("parameters", "named_parameters", "state_dict", "buffers", "named_buffers")


def averages(call: ast.Call, *, after: bool) -> bool:
    """Whether `call`, which may come `after` backward, keeps an average of weights by its name."""
    own = last_name(call.func).lower()
    owner = last_name(call.func.value).lower() if isinstance(call.func, ast.Attribute) else ""
    return "ema" in own or "ema" in owner or (after and any(word in own for word in _AVERAGING))


def moves_weights(statement: ast.stmt) -> bool:
    """Whether `statement` goes over weights and changes tensors in place, or what holds them."""
    changes = any(
        (isinstance(at, ast.Attribute) and (at.attr == "data" or _is_in_place(at.attr)))
        or isinstance(at, ast.AugAssign)
        for at in ast.walk(statement)
    )
    return changes and any(last_name(call.func) in _OF_WEIGHTS for call in calls_in(statement))


def _is_in_place(method: str) -> bool:
    """Whether `method` changes what it belongs to, as `add_` and `_foreach_mul_` do."""
    return (method.endswith("_") and not method.endswith("__")) or method == "load_state_dict"
