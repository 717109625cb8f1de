"""A run before its first step: the only thing that knobs change."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Autocast for forward and loss, by dtype name ("bfloat16", "float16").

    `scaled` adds a `torch.amp.GradScaler`, as float16 needs.
    """

    dtype: str
    scaled: bool = False


@dataclass(slots=True, kw_only=True)
class Setup:
    """What a run does differently from the program as it is; an empty Setup changes nothing."""

    # Switches thrown once, before the program starts (threads, cuDNN, matmul precision).
    process: list[Callable[[], None]] = field(default_factory=list)
    # Keyword arguments of the training `DataLoader` that replace the program's own.
    loader: dict[str, object] = field(default_factory=dict)
    # Changes made to a model in place, in order, before its first training forward.
    model: list[Callable[["torch.nn.Module"], None]] = field(default_factory=list)
    # Keyword arguments of the optimizer that replace the program's own.
    optimizer: dict[str, object] = field(default_factory=dict)
    # Autocast round forward and loss; None leaves the program's own.
    precision: Precision | None = None
    micro_batches: int = 1  # that one batch of the program's is split into
    non_blocking: bool = False  # copies of batches to the device do not wait for them
    prefetch_to_device: bool = False  # the next batch is copied on a stream of its own
    # `zero_grad` frees gradients, whatever the program passes; None leaves it be.
    set_to_none: bool | None = None

    # No knob's doing: by these it is seen how far rounding or chance alone would take the training,
    # each number having others of its own and 0 none.
    nudge: float = 0.0  # weights are moved at random by this share of themselves before they train
    stream: int = 0  # samples are read with other random numbers than the program's
    # Each epoch of a loader but its first draws its order from other random numbers, as with
    # workers that live on, which are seeded once; others for each `stream`.
    reorder: bool = False
    reseed: int = 0  # weights begin with, and training goes on from, other random numbers
    alike: bool = False  # loaders read alike whoever reads, here or in workers
    # No loader has more batches, if not 0: to see soon what follows when epochs are over.
    epoch_batches: int = 0

    def switch(self, throw: Callable[[], None]) -> None:
        """Have a switch of the process thrown before the program starts, and again before its first
        training step, when it has had its say.
        """
        self.process.append(throw)
        self.model.append(lambda _model: throw())


def loader_arguments(own: dict[str, object], changes: dict[str, object]) -> dict[str, object]:
    """`own` DataLoader arguments with `changes`, made consistent as DataLoader demands.

    Without workers there is no prefetch factor and nothing persists. A batch sampler has the batch
    size: a library builds a loader anew with that of one that was built so.
    """
    merged = {**own, **changes}
    if own.get("batch_sampler") is not None and "batch_size" in changes:
        merged["batch_size"] = 1  # the only one that DataLoader takes beside it
    if not merged.get("num_workers"):
        merged.pop("prefetch_factor", None)
        merged.pop("persistent_workers", None)
        merged.pop("multiprocessing_context", None)
        merged["timeout"] = 0
    return merged
