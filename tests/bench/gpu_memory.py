"""How near the memory model comes to the largest micro-batch that a device really takes.

A ResNet-50 on pictures of 224 by 224, in a share of the device's memory that is set by torch, so
that steps stay short: first the model's own search, then two epochs at the size that was found,
each with a smaller last batch and a validation, in which nothing is given back in between; then the
true limit by halving between what fits and what does not.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from autotune.measurement.processes.causes import kind_of
from autotune.profiling.memory_model import OutOfMemory, find_limit
from tests.bench.gpu_programs import images
from tests.bench.gpu_unit import Setting, Unit, apart

if TYPE_CHECKING:
    import torch

SHARE_BYTES = 24 << 30
START, MOST = 32, 4096
EPOCHS, EPOCH_STEPS = 2, 10
# Of the rehearsal's made-up device, which runs out of memory by its own arithmetic.
_FIXED_BYTES, _SAMPLE_BYTES, _FAKE_SHARE = 9_000_000, 1_000_000, 40_000_000

Probe = Callable[[int], int | OutOfMemory]


def memory(setting: Setting) -> dict[str, Any]:
    """The size found by the model, the true one, and what each probe said."""
    try:
        return _measured(setting)
    finally:
        _give_back()


def _measured(setting: Setting) -> dict[str, Any]:
    capacity = _FAKE_SHARE if setting.rehearse else _limited_bytes()
    training = None if setting.rehearse else Training(images.ResNet(50), pixels=224)
    probe = training.probe if training else _fake
    found = find_limit(
        probe, start=4 if setting.rehearse else START, most=MOST, capacity_bytes=capacity
    )
    failing = [size for size, peak in found.tried.items() if peak is None]
    epochs = training.epochs(found.size) if training else {"epoch_out_of_memory": 0}
    return {
        "capacity_bytes": capacity,
        "predicted_samples": found.size,
        "true_samples": true_limit(probe, found.size, min(failing, default=None)),
        "probes": len(found.tried),
        "out_of_memory": found.out_of_memories,
        **epochs,
        "tried": {str(size): peak for size, peak in found.tried.items()},
    }


def true_limit(probe: Probe, low: int, high: int | None) -> int:
    """The largest size that fits, to the sample; `low` fits, `high` does not, if it is known."""
    while high is None:
        if isinstance(probe(2 * low), OutOfMemory):
            high = 2 * low
        else:
            low *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if isinstance(probe(middle), OutOfMemory):
            high = middle
        else:
            low = middle
    return low


def _fake(size: int) -> int | OutOfMemory:
    peak = _FIXED_BYTES + _SAMPLE_BYTES * size
    return OutOfMemory() if peak > _FAKE_SHARE else peak


def _limited_bytes() -> int:
    """Let this process have no more than `SHARE_BYTES` of the device, or most of a smaller one."""
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    share = min(0.9, SHARE_BYTES / total)
    torch.cuda.set_per_process_memory_fraction(share)
    return int(share * total)


def _give_back() -> None:
    """What this process held of the device is the next measurement's."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.0)


def _retries() -> int:
    import torch

    return int(torch.cuda.memory_stats().get("num_alloc_retries", 0))


class Training:
    """Two steps with the optimizer's state, and a validation, at any batch size."""

    def __init__(self, model: "torch.nn.Module", *, pixels: int) -> None:
        import torch

        self._pixels = pixels
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = model.to(self._device)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-4)

    def probe(self, size: int) -> int | OutOfMemory:
        """Peak bytes of what lay in memory at once, or that they were not to be had. What torch's
        allocator keeps beyond that, it gives back before it lacks memory.
        """
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        if not self._fits(self.train, size):
            return OutOfMemory()
        return int(torch.cuda.max_memory_allocated())

    def epochs(self, size: int) -> dict[str, int]:
        """How often there was no memory in epochs of `size`, and how often the allocator gave its
        cache back to find some: as its blocks lie, what fits once need not fit again.
        """
        import torch

        torch.cuda.empty_cache()
        before = _retries()
        batches = [*[size] * EPOCH_STEPS, max(1, size // 3)]
        failed = 0
        for _ in range(EPOCHS):
            failed += sum(not self._fits(self.step, each) for each in batches)
            failed += not self._fits(self.validate, size)
        return {"epoch_out_of_memory": failed, "epoch_retries": _retries() - before}

    def train(self, size: int) -> None:
        """Two steps and a validation, each on a made-up batch; no gradients are left."""
        for _ in range(2):
            self.step(size)
        self.validate(size)
        self._optimizer.zero_grad()

    def step(self, size: int) -> None:
        """Train on one made-up batch."""
        self._optimizer.zero_grad()
        inputs, labels = self._batch(size)
        images.loss_of(self._model(inputs), labels).backward()
        self._optimizer.step()

    def validate(self, size: int) -> None:
        """Look at one made-up batch."""
        import torch

        with torch.no_grad():
            self._model(self._batch(size)[0])

    def _fits(self, run: Callable[[int], None], size: int) -> bool:
        """Run with `size`: whether there was memory for it."""
        try:
            run(size)
        except RuntimeError as error:
            if kind_of(error) != "out_of_memory":
                raise
            self._optimizer.zero_grad()
            return False
        return True

    def _batch(self, size: int) -> "tuple[torch.Tensor, torch.Tensor]":
        import torch

        inputs = torch.randn(size, 3, self._pixels, self._pixels, device=self._device)
        return inputs, torch.zeros(size, dtype=torch.long, device=self._device)


UNITS = (Unit(part="memory", name="memory", seconds=60, measure=partial(apart, memory)),)
