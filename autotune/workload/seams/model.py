"""The outermost module call: where a model is found, set up, timed, and run under autocast.

Modules are found by watching `nn.Module.__call__` during the first steps only. A module that was
found carries its own hook in `_compiled_call_impl`, the attribute that `nn.Module` asks first:
inner modules cost nothing, and torch.compile never traces it.
"""

import functools
import weakref
from itertools import islice
from threading import get_ident
from types import MethodType
from typing import Any

import torch
from torch import nn

from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.parts.outputs import in_float32
from autotune.workload.randomness.others import nudge
from autotune.workload.seams import autocast, compiling
from autotune.workload.seams.calls import note_for_good, note_training

_is_compiling = torch.compiler.is_compiling  # or exporting
_is_tracing = torch._C._is_tracing
_current_graph_task_id = torch._C._current_graph_task_id

_replicate_for_data_parallel = nn.Module._replicate_for_data_parallel

_CALL = "_compiled_call_impl"  # the attribute that nn.Module asks first
_NO_BACKWARD = -1  # the id that torch gives where no backward pass is running


class Hook(functools.partial[Any]):
    """A call of one module, which its copies do not have: not every class of modules leaves out
    the attribute that it is in when it is copied or pickled (recurrent ones, DDP).
    """

    autotune_inner: Any  # what it stands for
    autotune_original: Any  # what the module had there itself

    def __deepcopy__(self, _: Any) -> None:
        return None

    def __reduce__(self) -> Any:
        return type(None), ()


def install(live: Live) -> None:
    """Find the outermost modules that are called in the first steps, and hook each of them."""
    own_call, called = nn.Module.__call__, _called(live)
    inside: set[int] = set()  # of the threads, those that are in a module's call

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A compiled module may have kept this hook. Whether it is being compiled comes first, for
        # what is asked before that would be asked in each call, and compiled anew when it changes.
        if _is_no_step() or live.fed.drawing or (thread := get_ident()) in inside:
            return own_call(self, *args, **kwargs)
        if _is_handed_models(self, (*args, *kwargs.values())):
            return own_call(self, *args, **kwargs)
        is_part = live.thread in inside  # a replica on another GPU has a thread of its own
        inside.add(thread)
        try:
            if is_part:
                return own_call(self, *args, **kwargs)
            return called(own_call, self, args, kwargs)
        finally:
            inside.discard(thread)
            # Once: all classes of modules forget what they have looked up by it.
            if nn.Module.__call__ is __call__ and not _looks(live):
                nn.Module.__call__ = own_call  # type: ignore[method-assign]

    live.patch(nn.Module, "__call__", __call__)
    live.patch(nn.Module, "_replicate_for_data_parallel", _replicate)
    compiling.hide(live, own_call, __call__, put_back=lambda: _looks(live))


def _called(live: Live) -> Any:
    """An outermost call while modules are looked for."""
    passing = _passing(live)

    def called(call: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        scripting = torch.jit.is_scripting()  # type: ignore[attr-defined]
        if live.elsewhere or scripting or _is_hooked(module):
            return call(module, *args, **kwargs)
        if live.models.made_anew and not live.discovering:
            return passing(call, module, args, kwargs)
        if next(iter(module.parameters()), None) is None:  # a program may give a list of them
            return _without_weights(live, call, module, args, kwargs)
        found = _lasting(live, module)
        if found is module or not _is_hooked(found):
            hook(live, found)
        return call(module, *args, **kwargs)

    return called


def _is_handed_models(module: nn.Module, given: tuple[Any, ...]) -> bool:
    """Whether it is a loss that calls the models which it is given: those are the outermost."""
    handed = any(isinstance(each, nn.Module) for each in given)
    return handed and next(iter(module.parameters()), None) is None


def _looks(live: Live) -> bool:
    """Whether modules are still looked for."""
    goes_on = live.discovering or live.models.made_anew
    return bool(goes_on and live.patches and not live.elsewhere)


def _passing(live: Live) -> Any:
    """A call of a module that is gone after a few steps: timed, but not hooked."""
    timed = live.clock.timed("forward")

    def passing(call: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        if not _is_to_train(module):
            return call(module, *args, **kwargs)
        if live.models.pass_by(module, live.pace.steps):
            live.discover_again()
        if not live.plain:
            note_training(live, module, args, kwargs)
        outcome = timed(call, module, *args, **kwargs)
        return _handed_on(live, module, (args, kwargs), outcome, trains=True)

    return passing


def _without_weights(live: Live, call: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
    """A call of a loss or an activation, which is hooked from then on; or of a transform, which is
    left alone: where it is called for each sample a hook costs as much as it does itself.
    """
    outcome = call(module, *args, **kwargs)
    if not any(each.requires_grad for each in batches.tensors(outcome)):
        return outcome
    hook(live, module)
    return _handed_on(live, module, (args, kwargs), outcome, trains=False)


def _lasting(live: Live, module: nn.Module) -> nn.Module:
    """`module`; or, where the program wraps its model anew for each call (the solver of a neural
    differential equation does), the model that it wraps.
    """
    weights, kind = set(map(id, module.parameters())), type(module)
    inside = live.models.inside
    may_be_new = bool(weights) and module not in inside  # no part of another that was called
    for part in islice(module.modules(), 1, None) if may_be_new else ():
        if inside.get(part) is kind and set(map(id, part.parameters())) == weights:
            for wrapper in live.models.unwrap(part, kind):
                live.unhook(wrapper, _CALL)
            return part
    for part in islice(module.modules(), 1, None):
        inside.setdefault(part, kind)
    return module


def _replicate(module: nn.Module) -> nn.Module:
    """A replica on another GPU has the attributes of its module; a hook would call that one."""
    replica: nn.Module = _replicate_for_data_parallel(module)  # type: ignore[no-untyped-call]
    if _is_hooked(replica):
        del vars(replica)[_CALL]
    return replica


def _is_hooked(module: nn.Module) -> bool:
    return isinstance(vars(module).get(_CALL), Hook)


def hook(live: Live, module: nn.Module) -> None:
    """Set up `module` if it is one to train, and time its calls from now on.

    One that is called before it is trained (to evaluate it, or while it is frozen) is hooked anew
    at its first training call.
    """
    if ready := _is_to_train(module):
        set_up(live, module)
    trainable, weighs = _is_trainable(module), next(iter(module.parameters()), None) is not None
    known = weakref.ref(module)  # what hangs on it would keep it alive
    own, unbound = vars(module).get(_CALL), type(module)._call_impl
    timed, strays = live.clock.timed("forward"), live.pace.strays
    last_shape: Any = None

    def hooked(*args: Any, **kwargs: Any) -> Any:
        nonlocal last_shape
        module: Any = known()
        call: Any = own or MethodType(unbound, module)
        plain = (has_gradients := torch.is_grad_enabled()) and live.plain
        outside = live.elsewhere or live.fed.drawing  # a batch is made there, by transforms
        if outside or _is_no_step() or not (plain or _belongs_to_step(live, module)):
            return call(*args, **kwargs)
        strays.calls += has_gradients
        if not has_gradients:
            call = _frozen(live, module, call)
        elif not ready and _is_to_train(module):
            live.unhook(module, _CALL)
            hook(live, module)
            return vars(module)[_CALL](*args, **kwargs)
        elif not live.plain and trainable:
            note_training(live, module, args, kwargs)
        elif live.plain and weighs and (not args or getattr(args[0], "shape", live) != last_shape):
            last_shape = note_for_good(live, module, args, kwargs)
        outcome = timed(call, *args, **kwargs)
        if live.discovering or live.setup.precision or strays.calls > strays.many:
            return _handed_on(live, module, (args, kwargs), outcome, ready)
        return outcome

    live.patch(module, _CALL, Hook(hooked))
    vars(module)[_CALL].autotune_inner = own or unbound


def _handed_on(live: Live, module: nn.Module, given: Any, outcome: Any, trains: bool) -> Any:
    """What the program is given for `outcome`: autocast leaves a CPU's sums in bf16."""
    live.pace.strays.look(given, outcome)
    if live.discovering:
        live.outputs.note(module, given, outcome, trains=trains)
    widens = live.setup.precision is not None and live.device().type == "cpu"
    return in_float32(outcome) if widens else outcome


def _is_no_step() -> bool:
    """Whether this call is traced, or is made by a backward pass that computes checkpointed
    activations again, under the autocast of their forward pass.
    """
    return _is_compiling() or _is_tracing() or _current_graph_task_id() != _NO_BACKWARD


def _is_trainable(module: nn.Module) -> bool:
    """Whether it has weights to train; lazy ones are none before their first call."""
    parameters = list(module.parameters())
    lazy = any(map(nn.parameter.is_lazy, parameters))
    return not lazy and any(parameter.requires_grad for parameter in parameters)


def _is_to_train(module: nn.Module) -> bool:
    return module.training and torch.is_grad_enabled() and _is_trainable(module)


def set_up(live: Live, module: nn.Module) -> None:
    """Change `module` as the Setup says, once."""
    if module in live.models.trained:
        return
    for change in live.setup.model:
        change(module)
    if live.setup.nudge:
        nudge(module, live.setup.nudge, live.models.nudged)
    live.models.trained.add(module)
    if live.frozen is not None and live.frozen() is module:  # it was no teacher
        live.places.pop("frozen", None)


def _belongs_to_step(live: Live, module: nn.Module) -> bool:
    """Whether a call is part of training: with gradients, unless it is of a validation that keeps
    them; without, that of a teacher, an encoder. A trained model is being evaluated.
    """
    trained = module in live.models.trained
    if trained and not module.training:
        live.models.note_evaluation(live.pace.steps)
    if torch.is_grad_enabled():
        return live.stranger is None or not live.pace.away or module.training
    if trained:
        live.plain, live.stranger, live.looked = False, None, True
        if not module.training:
            autocast.close(live)
            live.leave_training()
    return not live.pace.away


def _frozen(live: Live, module: nn.Module, call: Any) -> Any:
    """A teacher's call, or an encoder's: `call` in the format that the step is computed in."""
    precision = live.setup.precision
    if live.open_autocast is not None and precision is not None:
        # What autocast keeps of weights that it has cast now has no gradients, for the step either.
        given: dict[str, Any] = {"dtype": getattr(torch, precision.dtype), "cache_enabled": False}
        return torch.autocast(live.device().type, **given)(call)
    if module in live.models.trained:
        return call
    if live.discovering and not live.forward_begun:
        live.note_place("frozen")
        live.frozen = weakref.ref(module)
    if precision is None:
        return call
    return torch.autocast(live.device().type, dtype=getattr(torch, precision.dtype))(call)
