"""What models give of one batch with their weights channels last, and in a shorter number format,
beside what they give as they are. Code that goes by the order in memory itself (`as_strided`, a
kernel of one's own) reads other numbers then, ids that are computed become others, and no error
says so.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from autotune.workload.found import Again, Apart
from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.looks.watch import Watch
from autotune.workload.randomness.others import nudge
from autotune.workload.randomness.stillness import kept_random_state

# What weights are moved by, as a share of each: by some units in the last place of float32, as
# another order of summing moves sums; and by one of bf16.
_LITTLE, _BY_A_FORMAT = 1e-6, 2.0**-8
# Calls differ by more than chance where they do so many times as much.
_TIMES_CHANCE = 2.0
# A model that writes out whole texts where it evaluates may take minutes.
_MOST_SECONDS = 5.0
_FORMATS = {"cpu": ("bfloat16",), "cuda": ("bfloat16", "float16")}
# A CPU without units for a format takes many times as long for a product of this width, and for a
# model: nobody would have it then, and whether it is right there is not asked.
_TOO_SLOW, _WIDTH, _PRODUCTS = 3.0, 128, 5


class ComputingAgain(Watch):
    """Computes each model's last batch again; the last `Watch` of its run: weights change."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._given: dict[nn.Module, tuple[Any, Any]] = {}
        self._handles: list[Any] = []

    def begin(self) -> None:
        for module in list(self._live.models.trained):
            self._handles.append(module.register_forward_pre_hook(self._note, with_kwargs=True))

    def end(self) -> Again:
        """Without what could not be computed again."""
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


class _Calls(TorchFunctionMode):
    """Counts the functions of torch's that Python calls."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True, slots=True)
class _Given:
    """What a model gave, and how many functions of torch's it called for it."""

    numbers: list[torch.Tensor]
    calls: int


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

    def gives(self, dtype: str = "") -> _Given | None:
        """Its numbers, under autocast to a `dtype`; with the same random numbers each time."""
        short = getattr(torch, dtype) if dtype else None
        autocast = torch.autocast(self.device, short, enabled=short is not None)
        on_gpu = [torch.cuda.current_device()] if self.device == "cuda" else []
        kept = torch.random.fork_rng(on_gpu)
        try:
            with kept, kept_random_state(), torch.no_grad(), autocast, _Calls() as calls:
                outcome = self._module(*self._args, **self._kwargs)
        except Exception:  # noqa: BLE001 - the program's own
            return None
        found = (each.detach() for each in batches.tensors(outcome) if each.is_floating_point())
        return _Given([each.float().clone() for each in found], calls.count)

    def gives_channels_last(self) -> _Given | None:
        """The same with its weights in that order, which is taken back."""
        order: Any = self._module.to
        try:
            order(memory_format=torch.channels_last)
        except RuntimeError:  # of five dimensions
            return None
        found = self.gives()
        order(memory_format=torch.contiguous_format)
        return found

    def gives_moved(self, share: float) -> _Given | None:
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
    formats = (name for name in _FORMATS.get(model.device, ()) if has_units(model.device, name))
    others = {name: model.gives(name) for name in formats}
    reordered = model.gives_channels_last() if model.has_an_order() else None
    moved, moved_far = (model.gives_moved(share) for share in (_LITTLE, _BY_A_FORMAT))
    return Again(
        channels_last=_held(own, reordered, (repeated, moved)),
        formats={name: _held(own, other, (repeated, moved_far)) for name, other in others.items()},
    )


def has_units(device: str, name: str) -> bool:
    """Whether a `device` multiplies numbers of that format about as fast as those of float32."""
    own, short = (_product_seconds(device, each) for each in (torch.float32, getattr(torch, name)))
    return short < _TOO_SLOW * own


def _product_seconds(device: str, dtype: torch.dtype) -> float:
    matrix, taken = torch.ones(_WIDTH, _WIDTH, device=device, dtype=dtype), list[float]()
    for _ in range(_PRODUCTS):
        began = time.perf_counter()
        matrix @ matrix
        taken.append(time.perf_counter() - began)
    return min(taken)


def _held(
    own: _Given | None, other: _Given | None, by_chance: tuple[_Given | None, ...]
) -> Apart | None:
    """`other` held to its `own`; None where one could not be had, or has not as many numbers."""
    if own is None or other is None or not own.numbers:
        return None
    known = [each for each in by_chance if each is not None]
    shapes = [each.shape for each in own.numbers]
    if len(known) < len(by_chance) or any(
        [number.shape for number in each.numbers] != shapes for each in (other, *known)
    ):
        return None
    more = _more_calls(own, other)
    chance = max(abs(_more_calls(own, each)) for each in known)
    return Apart(
        apart=_apart(own, other),
        by_chance=max(_apart(own, each) for each in known),
        more_calls=more if abs(more) > _TIMES_CHANCE * chance else 0.0,
    )


def _more_calls(own: _Given, other: _Given) -> float:
    return (other.calls - own.calls) / max(1, own.calls)


def _apart(own: _Given, other: _Given) -> float:
    """How far they lie apart, as a share of what they are (root mean squares), at the most."""
    return max(
        float((one - another).norm() / one.norm().clamp(min=torch.finfo(one.dtype).tiny))
        for one, another in zip(own.numbers, other.numbers, strict=True)
    )


def _furthest(found: Iterable[Apart | None]) -> Apart | None:
    """Of several models' the one that is furthest from what it was."""
    known = [each for each in found if each is not None]
    return max(
        known,
        key=lambda each: (abs(each.more_calls), each.apart / max(each.by_chance, _LITTLE)),
        default=None,
    )
