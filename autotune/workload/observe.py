"""What a live run has been made of so far, as plain data."""

import os
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, replace
from typing import Any

import torch

from autotune.nvml import Gpu
from autotune.source.edits import Place, Places
from autotune.workload.inspect import describe_loader, describe_model, gpus_of
from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.parts.described import describe_optimizer, sparse_tables
from autotune.workload.places import is_users
from autotune.workload.seams.options import options
from autotune.workload.seams.samples import training_batch
from autotune.workload.seen import Seen, SeenLoader
from autotune.workload.standing import Written, standing
from autotune.workload.system.blas import blas_threads
from autotune.workload.system.heap import keeps_freed_memory
from autotune.workload.system.processor import flushes_denormals
from autotune.workload.system.quiet import quietly
from autotune.workload.trackers import trackers


@quietly()  # of switches that torch is about to rename
def observe(live: Live) -> Seen:
    """The Seen of a run, read from its live parts; never from what was asked for."""
    steps = max(live.pace.steps + live.skipped, 1)
    return Seen(
        loader=_training_loader(live),
        **_models(live),
        **_optimizers(live),
        backwards_per_step=live.backwards / steps,
        passes=tuple(live.passes.stretches),
        evaluated_share=live.models.evaluated / steps,
        samples_per_step=(live.pace.samples - live.fed.miscounted) / steps,
        **_device(live),
        batch=batches.describe(training_batch(live)),
        batch_bytes=batches.count_bytes(training_batch(live)),
        compiling_seconds=compiling_seconds(),
        shapes=_most_of_a_module({(module, shape) for module, shape, _ in live.calls}),
        calls=_most_of_a_module(live.calls),
        keeps_outputs=live.outputs.kept,
        autocast=live.autocast,
        scaler=live.scaler_seen,
        passed_loops=len(live.passed),
        taking_turns=live.taking_turns,
        rehearsed=live.rehearsal.apart if live.rehearsal else None,
        micro_batches=max(1, round(live.backwards / steps)),
        other_loaders=sum(not each.trains and each.loader() is not None for each in live.loaders),
        loaders_at=_sorted({each.place for each in live.loaders}),
        non_blocking=live.copied.non_blocking,
        own_buffers=live.copied.again,
        prefetch_to_device=live.copied.aside,
        copies_to_device=round(live.copied.count / steps),
        set_to_none=live.set_to_none,
        **_switches(),
        process_beside=_process_beside(live),
        trackers=trackers(steps),
        modules=(modules := _modules()),
        options=options(written := Written(modules)),
        standing=standing(written),
        places=_places(live),
    )


def _process_beside(live: Live) -> Place | None:
    """Where the first of those was started that a step has left behind."""
    left = (place for step, place in live.processes.values() if step < live.pace.steps)
    return next(left, None)


def _switches() -> dict[str, Any]:
    """Switches of the whole process, by the fields of a Seen."""
    return {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "blas_threads": blas_threads(),
        "matmul_precision": _matmul_precision(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_tf32": _allows_cudnn_tf32(),
        "deterministic": torch.are_deterministic_algorithms_enabled()
        or torch.backends.cudnn.deterministic,
        "expandable_segments": _has_expandable_segments(),
        "keeps_freed_memory": keeps_freed_memory(),
        "flushes_denormals": flushes_denormals(),
    }


def compiling_seconds() -> float:
    """How long torch.compile was at work here; torch is asked only where it has loaded that."""
    module = sys.modules.get("torch._dynamo.utils")
    spent = getattr(module, "calculate_time_spent", None)
    return float(spent().get("total_wall_time", 0.0)) if spent else 0.0


def _modules() -> tuple[str, ...]:
    """The files of modules of the program's own that are imported."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    own = {file for file in files if file and os.path.isabs(file) and is_users(file)}
    return tuple(sorted(own))


# Torch 2.9 and later refuse to say the two that follow where the program has used their newer
# switches, `fp32_precision`; which then say it.


def _matmul_precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "high" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "highest"


def _allows_cudnn_tf32() -> bool:
    try:
        return torch.backends.cudnn.allow_tf32
    except RuntimeError:
        cudnn: Any = torch.backends.cudnn
        return bool(cudnn.conv.fp32_precision == "tf32")


def _device(live: Live) -> dict[str, Any]:
    """What is known of the device that trains, by the fields of a Seen."""
    device, gpus = live.device(), gpus_of(live.models.known())
    known = {"device": device.type, "gpus": max(1, len(gpus))}
    return known | _gpu(device)


def _gpu(device: torch.device) -> dict[str, Any]:
    """What CUDA says of the GPU that trains, by the fields of a Seen."""
    if device.type != "cuda":
        return {}
    told = torch.cuda.get_device_properties(device)
    capability, memory = (told.major, told.minor), told.total_memory
    gpu = Gpu(name=told.name, memory_bytes=memory, capability=capability, driver="")
    return {"device_uuid": str(getattr(told, "uuid", "")), "gpu": gpu}


def _has_expandable_segments() -> bool:
    """As the allocator itself says, whatever the environment asks for."""
    if not torch.cuda.is_initialized():
        return False
    try:
        settings = torch.cuda.memory._snapshot().get("allocator_settings", {})
    except RuntimeError:  # another allocator (cudaMallocAsync) has none to show
        return False
    return bool(settings.get("expandable_segments"))


def _training_loader(live: Live) -> SeenLoader | None:
    built = live.leading_loader
    loader = live.fed.loader()
    described = live.fed.described if loader is None else describe_loader(loader)
    if built is None or described is None:
        return None
    seen = replace(
        described,
        ordinal=built.ordinal,
        shared_place=any(each.place == built.place and not each.trains for each in live.loaders),
        ahead=live.ahead,
        threaded=live.drawn_in_thread,
        nested=built.nested,
        beside=_drawn_beside(live),
    )
    if built.written is None:
        return seen
    names = ("batch_size", "shuffle", "drop_last", "custom_batches")
    return replace(seen, **{name: getattr(built.written, name) for name in names})


def _drawn_beside(live: Live) -> int:
    """Other loaders that a step has drawn from, besides the one that led then."""
    if not live.draws:
        return 0
    leading, drawn = live.draws[-1]
    return len({built.source for built, _ in drawn} - {leading.source})


def _has_stepped(optimizer: Any) -> bool:
    return optimizer is not None and vars(optimizer).get("_autotune_stepped", False)


def _models(live: Live) -> dict[str, Any]:
    models = live.models
    return {
        "models": tuple(map(describe_model, models.outermost())),
        "models_made_anew": models.made_anew,
        "time_first": tuple(sorted(models.time_first.kinds)),
    }


def _optimizers(live: Live) -> dict[str, Any]:
    """The leading one, those beside it, and how many step, those that led before among them."""
    leader = live.leader() if live.leader else None
    stepped = [each for known in live.optimizers if _has_stepped(each := known())]
    beside = (each for each in stepped if each is not None and each not in live.have_led)
    sparse = sparse_tables(live.models.known())
    led = describe_optimizer(leader, closure=live.closure, sparse=sparse) if leader else None
    return {
        "optimizer": led,
        "optimizers": len(stepped),
        "beside": tuple(describe_optimizer(each, sparse=sparse) for each in beside),
    }


def _places(live: Live) -> Places:
    leader = live.leader() if live.leader else None
    others = [known() for known in live.optimizers]
    kind = type(leader)
    alike = {_place(each) for each in others if type(each) is kind and _has_stepped(each)}
    return Places(
        loader=live.leading_loader.place if live.leading_loader else None,
        loader_class=live.leading_loader.class_place if live.leading_loader else None,
        loader_caller=live.leading_loader.caller if live.leading_loader else None,
        optimizer=_place(leader),
        optimizer_caller=getattr(leader, "_autotune_caller", None),
        more_optimizers=_sorted(alike - {_place(leader)}),
        outputs=tuple(sorted(live.outputs.places, key=astuple)),
        backwards=_sorted(live.passes.places),
        copies=_sorted(live.copied.places),
        batch_copies=_sorted(live.copied.batches),
        **live.places,
    )


def _place(optimizer: Any) -> Place | None:
    """The line that built it; one that was copied or unpickled has none."""
    return getattr(optimizer, "_autotune_place", None)


def _most_of_a_module(calls: Iterable[tuple[Any, ...]]) -> int:
    return max(Counter(module for module, *_ in calls).values(), default=1)


def _sorted(places: Iterable[Place | None]) -> tuple[Place, ...]:
    known = (place for place in places if place is not None)
    return tuple(sorted(known, key=lambda place: (place.path, place.line)))
