"""What live parts of a training program are made of: modules and loaders as plain data."""

import gc
import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, Subset

from autotune.workload.loading.batches import address, bytes_of
from autotune.workload.parts.blocks import from_an_end, repeated_blocks
from autotune.workload.parts.recomputing import is_checkpointed
from autotune.workload.randomness.seeding import seeds_alike
from autotune.workload.randomness.stillness import kept_random_state
from autotune.workload.seen import SeenLoader, SeenModel

# What a loader is marked with whose dataset was changed between epochs, the plain values that tell
# it, and how many datasets inside one another are looked at.
CHANGING = "_autotune_changing"
TOLD = "_autotune_told"  # how many epochs were begun, and what the last one was told
_PLAIN = (bool, int, float, str)
_WRAPPED = 3

_MODES = {
    (False, False): "default",
    (True, False): "reduce-overhead",
    (True, True): "max-autotune",
    (False, True): "max-autotune-no-cudagraphs",
}


def describe_model(module: nn.Module) -> SeenModel:
    """`module` as it is now; what `torch.compile` wrapped is looked into."""
    inner = _unwrapped(module)
    parameters = list(inner.parameters())
    modules = list(inner.modules())
    convolutions = _count(modules, nn.Conv2d)
    blocks = repeated_blocks(inner)
    tables = _weighted(modules, nn.Embedding, nn.EmbeddingBag)
    floating = (each for each in parameters if each.is_floating_point())
    leading = max(floating, key=torch.Tensor.numel, default=None)
    return SeenModel(
        name=type(inner).__name__,
        parameters=sum(parameter.numel() for parameter in parameters),
        parameter_bytes=bytes_of(parameters),
        buffer_bytes=bytes_of(inner.buffers()),
        dtype="" if leading is None else str(leading.dtype).removeprefix("torch."),
        device="cpu" if leading is None else leading.device.type,
        convolutions=convolutions,
        other_convolutions=_count(modules, _ConvNd) - convolutions,
        batch_norms=_count(modules, _BatchNorm),
        flat_norms=_count(modules, nn.BatchNorm1d),
        dropouts=sum(isinstance(each, _DropoutNd) and each.p > 0 for each in modules),
        channels_last=_is_channels_last(modules),
        weights_elsewhere=_are_elsewhere(each for each in parameters if each.dim() == 4),
        five_dimensional=any(each.dim() == 5 for each in (*parameters, *inner.buffers())),
        compiled=_compiled(module),
        checkpointed=_checkpointed(inner, blocks),
        blocks=blocks,
        of_torch=_is_of_torch(inner),
        scripted=isinstance(inner, torch.jit.ScriptModule),
        pretrained=any(each.__name__ == "PreTrainedModel" for each in type(inner).__mro__),
        gradient_hooks=_has_gradient_hooks(parameters, modules),
        moving_blocks=any(
            _moves(each) for name in blocks for each in inner.get_submodule(name).modules()
        ),
        frozen_bytes=bytes_of(_frozen(parameters)),
        frozen_table_bytes=bytes_of(_frozen({each.weight for each in tables})),
        sparse_gradients=any(each.sparse and each.weight.requires_grad for each in tables),
    )


def _frozen(parameters: Iterable[nn.Parameter]) -> Iterator[nn.Parameter]:
    return (each for each in parameters if not each.requires_grad)


def _are_elsewhere(parameters: Iterable[torch.Tensor]) -> bool:
    """Whether one of `parameters` has its memory with other tensors: as a part of a larger one, as
    all weights in one vector, with a view that the program keeps of it (`weight.data`), with
    another parameter whose `.data` was set to its own, or with other processes.
    """
    found = (each for each in parameters if each.requires_grad and each.nbytes)
    trained = [each for each in found if each.layout is torch.strided]
    if any(each.nbytes < each.untyped_storage().nbytes() for each in trained):
        return True
    if any(each.is_shared() for each in trained if each.device.type == "cpu"):
        return True
    own = {at: each for each in trained if (at := address(each))}
    kinds = (torch.Tensor, nn.Parameter)
    kept = (each for each in gc.get_objects() if type(each) in kinds) if own else ()
    return any(own.get(address(each) or 0, each) is not each for each in kept)


def gpus_of(models: Iterable[nn.Module]) -> set[torch.device]:
    """The GPUs that hold weights of `models`, or that they split their batches among."""
    models = list(models)
    weights = (each for model in models for each in model.parameters())
    parts = (each for model in models for each in model.modules())
    split = (each.device_ids for each in parts if isinstance(each, nn.DataParallel))
    return {each.device for each in weights if each.is_cuda} | {
        torch.device("cuda", index) for indices in split for index in indices
    }


def describe_loader(loader: "DataLoader[Any]") -> SeenLoader:
    """`loader` as it was built; how the program uses it is the caller's to know."""
    return SeenLoader(
        dataset=type(loader.dataset).__name__,
        batch_size=loader.batch_size,
        num_workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
        pin_memory=bool(loader.pin_memory),
        shuffle=isinstance(loader.sampler, RandomSampler),
        drop_last=loader.drop_last,
        iterable=isinstance(loader.dataset, IterableDataset),
        custom_batches=loader.batch_size is None or type(loader.batch_sampler) is not BatchSampler,
        length=length_of(loader),
        dataset_length=length_of(loader.dataset),
        changing=getattr(loader, CHANGING, False),
        epochs=getattr(loader, TOLD, (0, None))[0],
        reseeded=seeds_alike(loader.worker_init_fn),
        reads_at_once=_reads_at_once(loader),
    )


def described_again(described: SeenLoader, loader: "DataLoader[Any]") -> SeenLoader:
    """`loader`, `described` in an earlier epoch: to ask for all again costs as much as a step."""
    changing, epochs = getattr(loader, CHANGING, False), getattr(loader, TOLD, (0, None))[0]
    return replace(described, changing=changing, epochs=epochs)


def _reads_at_once(loader: "DataLoader[Any]") -> bool:
    """Whether what a worker reads in one call may be a batch: a stream is mostly read in chunks."""
    dataset = loader.dataset
    while isinstance(dataset, Subset):  # has the method, and asks its dataset for it
        dataset = dataset.dataset
    of_samples = loader.batch_sampler is not None and not isinstance(dataset, IterableDataset)
    return not of_samples or hasattr(type(dataset), "__getitems__")


def plain_state(dataset: object) -> list[tuple[str, object]]:
    """The numbers and texts that a dataset keeps as attributes, and those of what it wraps."""
    found: list[tuple[str, object]] = []
    for _ in range(_WRAPPED):
        kept = getattr(dataset, "__dict__", {})
        found += [(name, value) for name, value in kept.items() if isinstance(value, _PLAIN)]
        dataset = kept.get("dataset")
    return found


def _has_gradient_hooks(parameters: list[nn.Parameter], modules: list[nn.Module]) -> bool:
    names = ("_backward_hooks", "_backward_pre_hooks", "_post_accumulate_grad_hooks")
    return any(getattr(each, name, None) for each in (*parameters, *modules) for name in names)


def _moves(module: nn.Module) -> bool:
    """Whether a forward pass in training moves something on that the module keeps."""
    if isinstance(module, _NormBase):
        return module.track_running_stats
    before = (module, *module._forward_pre_hooks.values())
    return any(isinstance(each, (_SpectralNorm, SpectralNorm)) for each in before)


def _checkpointed(model: nn.Module, blocks: Sequence[str]) -> int:
    """How many of `blocks` are recomputed; see `SeenModel`."""
    found = {name for name, module in model.named_modules() if is_checkpointed(module)}
    if not found:
        return 0
    for count in range(1, len(blocks)):
        for side in (count, -count):
            if found == set(from_an_end(blocks, side)):
                return side
    return max(1, len(blocks))


def _unwrapped(module: nn.Module) -> nn.Module:
    inner = getattr(module, "_orig_mod", module)  # torch._dynamo's OptimizedModule
    return inner if isinstance(inner, nn.Module) else module


def _compiled(module: nn.Module) -> str:
    """The mode of the first part of the module that is compiled, "off" where none is.

    `compile()` in place on a module whose forward is torch's own compiles nothing, whatever the
    module says: torch passes its own files over.
    """
    for each in module.modules():
        called = None if _is_of_torch(each) else vars(each).get("_compiled_call_impl")
        forward = getattr(each, "forward", None)
        for candidate in (getattr(called, "autotune_inner", called), forward):
            if hasattr(candidate, "get_compiler_config"):
                return _mode(candidate)
    return "off"


def _is_of_torch(module: nn.Module) -> bool:
    # A scripted module's class hands its forward pass out to objects alone.
    forward = inspect.getattr_static(type(module), "forward", None)
    return str(getattr(forward, "__module__", "")).partition(".")[0] == "torch"


def _mode(compiled: Any) -> str:
    """What a callable was compiled for, by its compiler's settings; by another's: "default"."""
    settings = compiled.get_compiler_config() or {}
    return _MODES[bool(settings.get("triton.cudagraphs")), bool(settings.get("max_autotune"))]


def _is_channels_last(modules: list[nn.Module]) -> bool | None:
    """Whether every convolution's weight lies channels last, None where none can tell: a 1x1 kernel
    and one for a single channel lie both ways.
    """
    weights = [at.weight for at in _weighted(modules, nn.Conv2d)]
    lies_last = [weight.is_contiguous(memory_format=torch.channels_last) for weight in weights]
    both = zip(weights, lies_last, strict=True)
    told = [last for weight, last in both if not (last and weight.is_contiguous())]
    return all(told) if told else None


def _weighted(modules: list[nn.Module], *kinds: type[nn.Module]) -> list[Any]:
    """Those of these kinds that have their weight now: a hook may make it before each call."""
    return [each for each in modules if isinstance(each, kinds) and hasattr(each, "weight")]


def _count(modules: list[nn.Module], kind: type[nn.Module]) -> int:
    return sum(isinstance(each, kind) for each in modules)


def length_of(sized: Any) -> int | None:
    """How long `sized` says that it is, which uses up none of the program's random numbers; None
    where it does not say.
    """
    with kept_random_state():
        try:
            return len(sized)
        except Exception:  # noqa: BLE001 - the program's own, which did not ask
            return None
