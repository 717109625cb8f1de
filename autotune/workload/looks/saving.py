"""What is kept from forward for backward, in all and by each repeated block of a model."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from autotune.workload.found import Saved, SavedBlock
from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.looks.watch import Watch
from autotune.workload.parts.blocks import repeated_blocks
from autotune.workload.system.idle import seconds_until_idle

# What autograd calls a leaf, and what autocast's copy of one and views of that come from.
_LEAF = "torch::autograd::AccumulateGrad"
_SAME = frozenset(
    ("ToCopyBackward0", "TBackward0", "TransposeBackward0", "PermuteBackward0", "ViewBackward0")
)


class Saving(Watch):
    """Measures what is kept from forward for backward: every tensor that autograd saves, once,
    without parameters and the copies of them that autocast makes: those do not grow with a batch.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        self._own: set[int] = set()
        self._frozen: set[tuple[int, ...]] = set()
        self._users: Counter[int] = Counter()
        self._held = 0
        self._most = 0
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda kept: kept.tensor)
        self._blocks = _Blocks()

    def begin(self) -> None:
        self._own = {_place(each) for each in self._parameters()}
        self._frozen = {
            tuple(each.shape)
            for each in self._parameters()
            if each.dtype == torch.float32 and not each.requires_grad
        }
        models = self._live.models.known()
        self._blocks.watch(next((each for each in models if repeated_blocks(each)), None))
        self._hooks.__enter__()

    def end(self) -> Saved:
        self._hooks.__exit__()
        gradients = (each.grad for each in self._parameters() if each.grad is not None)
        return Saved(
            activation_bytes=self._most,
            gradient_bytes=batches.bytes_of(gradients),
            blocks=self._blocks.found(),
        )

    def _parameters(self) -> Iterator[torch.Tensor]:
        for module in self._live.models.trained:
            yield from module.parameters()

    def _pack(self, tensor: torch.Tensor) -> "_Kept":
        place = _place(tensor)
        size = 0 if place in self._own or self._is_weight(tensor) else _bytes(tensor)
        if not self._users[place]:
            self._held += size
            self._most = max(self._most, self._held)
            self._blocks.keeps(place, size)
        self._users[place] += 1
        return _Kept(tensor, lambda: self._release(place, size))

    def _is_weight(self, tensor: torch.Tensor) -> bool:
        """Whether it is a parameter in another format: by how it came about or, where nothing is
        learned, by its shape.
        """
        node: Any = tensor.grad_fn
        if node is None:
            shapes = {tuple(tensor.shape), tuple(tensor.shape)[::-1]}
            return tensor.dtype in (torch.bfloat16, torch.float16) and bool(shapes & self._frozen)
        while node is not None and node.name() in _SAME:
            node = node.next_functions[0][0]
        return node is not None and node.name() == _LEAF and _place(node.variable) in self._own

    def _release(self, place: int, size: int) -> None:
        self._users[place] -= 1
        if not self._users[place]:
            self._held -= size


class _Blocks:
    """The repeated blocks of a model while it runs: what each keeps inside, and how long it takes.

    What goes into a block is kept by checkpointing too, and what comes out goes into the next.
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._device: torch.device | None = None
        self._hooks: list[Any] = []
        self._kept: dict[int, int] | None = None  # bytes by storage, inside the block at work
        self._given: set[int] = set()
        self._began = 0.0
        self._passes: Counter[str] = Counter()
        self._bytes: defaultdict[str, int] = defaultdict(int)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def watch(self, model: nn.Module | None) -> None:
        if model is None:
            return
        self._names = repeated_blocks(model)
        on_gpus = (parameter.device for parameter in model.parameters() if parameter.is_cuda)
        self._device = next(on_gpus, None)
        for name in self._names:
            block = model.get_submodule(name)
            self._hooks += [
                block.register_forward_pre_hook(self._enter, with_kwargs=True),
                block.register_forward_hook(lambda _, __, out, name=name: self._leave(name, out)),
            ]

    def found(self) -> tuple[SavedBlock, ...]:
        for hook in self._hooks:
            hook.remove()
        return tuple(
            SavedBlock(
                name=name,
                freed_bytes=self._bytes[name] // self._passes[name],
                seconds=self._seconds[name] / self._passes[name],
            )
            for name in self._names
            if self._passes[name]
        )

    def keeps(self, place: int, size: int) -> None:
        if self._kept is not None and place not in self._given:
            self._kept[place] = size

    def _enter(self, _: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.is_grad_enabled():
            self._given = {_place(each) for each in batches.tensors((args, kwargs))}
            self._kept, self._began = {}, self._now()

    def _leave(self, name: str, out: Any) -> None:
        if self._kept is None:
            return
        self._seconds[name] += self._now() - self._began
        for each in batches.tensors(out):
            self._kept.pop(_place(each), None)
        self._bytes[name] += sum(self._kept.values())
        self._passes[name] += 1
        self._kept = None

    def _now(self) -> float:
        if self._device is not None:
            seconds_until_idle(self._device)
        return time.perf_counter()


class _Kept:
    """A saved tensor; says when backward has no more need of it."""

    def __init__(self, tensor: torch.Tensor, released: Callable[[], None]) -> None:
        self.tensor = tensor
        self._released = released

    def __del__(self) -> None:
        self._released()


def _bytes(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):
        return tensor._nnz() * tensor.element_size() if tensor.is_sparse else 0


def _place(tensor: torch.Tensor) -> int:
    at = batches.address(tensor)
    return id(tensor) if at is None else at
