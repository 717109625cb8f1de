"""What models give of one batch with their weights channels last, and in a shorter number format,
beside what they give as they are. Code that goes by the order in memory itself (`as_strided`, a
kernel of one's own) reads other numbers then, ids that are computed become others, and no error
says so.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from autotune.workload.found import Again, Apart
from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.randomness.nudging import nudge

# What weights are moved by, as a share of each: by some units in the last place of float32, as
# another order of summing moves sums; and by one of bf16.
_LITTLE, _BY_A_FORMAT = 1e-6, 2.0**-8
# A model that writes out whole texts where it evaluates may take minutes.
_MOST_SECONDS = 5.0
_FORMATS = {"cpu": ("bfloat16",), "cuda": ("bfloat16", "float16")}


class ComputingAgain:
    """Computes the last batch of each model again; a `Watch`, and the last of its run, whose
    weights are then others.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        self._given: dict[nn.Module, tuple[Any, Any]] = {}
        self._handles: list[Any] = []

    def begin(self) -> None:
        """See `Watch`."""
        for module in list(self._live.models.trained):
            self._handles.append(module.register_forward_pre_hook(self._note, with_kwargs=True))

    def step(self) -> None:
        """See `Watch`."""

    def end(self) -> Again:
        """See `Watch`; without what could not be computed again."""
        for handle in self._handles:
            handle.remove()
        self._live.elsewhere = True  # none of these calls is the program's
        try:
            with _in_time():
                found = [_again(_Model(module, given)) for module, given in self._given.items()]
        finally:
            self._live.elsewhere = False
        names = {name for each in found for name in each.formats}
        return Again(
            channels_last=_furthest(each.channels_last for each in found),
            formats={name: _furthest(each.formats.get(name) for each in found) for name in names},
        )

    def _note(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.is_grad_enabled():
            self._given.setdefault(module, (args, kwargs))


@contextmanager
def _in_time() -> Iterator[None]:
    """After `_MOST_SECONDS`, each call of a module fails."""
    ends = time.monotonic() + _MOST_SECONDS

    def check(*_: Any) -> None:
        if time.monotonic() > ends:
            raise TimeoutError

    handle = nn.modules.module.register_module_forward_pre_hook(check)
    try:
        yield
    finally:
        handle.remove()


class _Model:
    """A model that evaluates what it was given to train on; None stands for what it cannot give: it
    may only ever train, or view its batch.
    """

    def __init__(self, module: nn.Module, given: tuple[Any, Any]) -> None:
        self._module = module
        self._args, self._kwargs = given
        self.device = next(iter(module.parameters())).device.type
        for part in module.modules():
            part.training = False

    def gives(self, dtype: str = "") -> list[torch.Tensor] | None:
        """Its numbers, computed under autocast to a `dtype`."""
        short = getattr(torch, dtype) if dtype else None
        try:
            with torch.no_grad(), torch.autocast(self.device, short, enabled=short is not None):
                outcome = self._module(*self._args, **self._kwargs)
        except Exception:  # noqa: BLE001 - the program's own
            return None
        found = batches.tensors(outcome)
        return [each.detach().float().clone() for each in found if each.is_floating_point()]

    def gives_channels_last(self) -> list[torch.Tensor] | None:
        """The same with its weights in that order, which is taken back."""
        order: Any = self._module.to
        try:
            order(memory_format=torch.channels_last)
        except RuntimeError:  # of five dimensions
            return None
        found = self.gives()
        order(memory_format=torch.contiguous_format)
        return found

    def gives_moved(self, share: float) -> list[torch.Tensor] | None:
        """The same with its weights moved by a `share` of themselves, as they are from then on."""
        with torch.no_grad():
            nudge(self._module, share, WeakIdKeyDictionary())
        return self.gives()

    def is_short(self) -> bool:
        """Whether its weights are too coarse to tell."""
        least = torch.float32.itemsize
        return any(each.dtype.itemsize < least for each in self._module.parameters())

    def has_an_order(self) -> bool:
        """Whether it has weights of four dimensions."""
        return any(each.ndim == len("NCHW") for each in self._module.parameters())


def _again(model: _Model) -> Again:
    if model.is_short():
        return Again()
    own, repeated = model.gives(), model.gives()
    others = {name: model.gives(name) for name in _FORMATS.get(model.device, ())}
    reordered = model.gives_channels_last() if model.has_an_order() else None
    moved, moved_far = (model.gives_moved(share) for share in (_LITTLE, _BY_A_FORMAT))
    return Again(
        channels_last=_held(own, reordered, (repeated, moved)),
        formats={name: _held(own, other, (repeated, moved_far)) for name, other in others.items()},
    )


Given = list[torch.Tensor] | None


def _held(own: Given, other: Given, by_chance: tuple[Given, ...]) -> Apart | None:
    apart, chances = _apart(own, other), [_apart(own, each) for each in by_chance]
    known = [each for each in chances if each is not None]
    if apart is None or len(known) < len(chances):
        return None
    return Apart(apart=apart, by_chance=max(known))


def _apart(own: Given, other: Given) -> float | None:
    """How far they lie apart, as a share of what they are (root mean squares), at the most; None
    where they are not as many numbers.
    """
    if not own or not other or [each.shape for each in own] != [each.shape for each in other]:
        return None
    return max(
        float((one - another).norm() / one.norm().clamp(min=torch.finfo(one.dtype).tiny))
        for one, another in zip(own, other, strict=True)
    )


def _furthest(found: Iterable[Apart | None]) -> Apart | None:
    known = [each for each in found if each is not None]
    return max(known, key=lambda each: each.apart / max(each.by_chance, _LITTLE), default=None)
