"""Profiles of programs and machines that each make another set of knobs worth a trial."""

from dataclasses import replace
from typing import Any

from autotune.profiling.profile import Ceiling, Memory, Profile
from autotune.source.edits import Place, Places
from autotune.workload.found import Denormals
from tests.builders import GIB, machine, profile, seen, window


def ceilings(*, compute: float, data: float, host: float | None = None) -> tuple[Ceiling, ...]:
    """Ceilings by what each could gain, of a program at 100 samples a second."""
    gains = {"compute": compute, "host": host, "data": data}
    return tuple(
        Ceiling(name=name, samples_per_second=gain and 100 * gain, max_gain=gain)
        for name, gain in gains.items()
    )


def with_loader(given: Profile, **changes: Any) -> Profile:
    """`given` with another training loader."""
    assert given.seen.loader is not None
    return with_seen(given, loader=replace(given.seen.loader, **changes))


def with_model(given: Profile, **changes: Any) -> Profile:
    """`given` with another model."""
    return with_seen(given, models=(replace(given.seen.models[0], **changes),))


def with_optimizer(given: Profile, **changes: Any) -> Profile:
    """`given` with another optimizer."""
    assert given.seen.optimizer is not None
    return with_seen(given, optimizer=replace(given.seen.optimizer, **changes))


def with_seen(given: Profile, **changes: Any) -> Profile:
    """`given` with something else seen."""
    return replace(given, seen=replace(given.seen, **changes))


def with_machine(given: Profile, **changes: Any) -> Profile:
    """`given` on another machine."""
    return replace(given, machine=replace(given.machine, **changes))


def on_a_cpu(**changes: Any) -> Profile:
    """A convolutional network whose process decodes its images itself, on two cores."""
    given: dict[str, Any] = {
        "ceilings": ceilings(compute=3.4, data=1.4),
        "budget_seconds": 300.0,
    }
    return profile(**given | changes)


def waiting(**changes: Any) -> Profile:
    """A loader that waits for a store, read by read, and a model that hardly computes."""
    given: dict[str, Any] = {
        "ceilings": ceilings(compute=50.0, data=1.02),
        "phases": {
            "data": 0.97,
            "forward": 0.008,
            "backward": 0.012,
            "optimizer": 0.005,
            "other": 0.005,
        },
        "data_processor_share": 0.02,
    }
    return on_a_cpu(**given | changes)


def on_a_gpu(**changes: Any) -> Profile:
    """The same network on an Ampere GPU, which mostly computes; copies are from pageable memory."""
    given: dict[str, Any] = {
        "machine": machine(
            device="cuda",
            device_name="NVIDIA A100",
            capability=(8, 0),
            device_memory_bytes=40 * GIB,
            cores=16,
        ),
        "phases": {
            "data": 0.2,
            "copy": 0.1,
            "forward": 0.25,
            "backward": 0.35,
            "optimizer": 0.06,
            "other": 0.04,
        },
        "ceilings": ceilings(compute=1.42, host=1.25, data=1.6),
        "memory": memory(0.4, capacity_bytes=40 * GIB),
        "processors_used": 1.1,
        "probes": {},
        "seen": seen(device="cuda", copies_to_device=2),
    }
    whole = on_a_cpu(**given | changes)
    return with_model(whole, device="cuda")


def memory(filled: float, capacity_bytes: int = 8 * GIB) -> Memory:
    """Memory that is filled to this share at its peak."""
    return Memory(
        peak_bytes=int(filled * capacity_bytes),
        parameter_bytes=1_000_000,
        gradient_bytes=1_000_000,
        optimizer_bytes=1_000_000,
        activation_bytes=None,
        capacity_bytes=capacity_bytes,
    )


def short_of_memory(given: Profile) -> Profile:
    """`given` with its memory nearly full, and no batch norm in the way of micro-batches."""
    full = replace(given, memory=memory(0.95, given.machine.device_memory_bytes))
    return with_model(full, batch_norms=0)


def with_gaps_in_memory() -> Profile:
    """A GPU that is full of what its allocator keeps, a third of which the program does not use."""
    used = memory(0.65, 40 * GIB)
    return on_a_gpu(memory=replace(used, reserved_bytes=39 * GIB))


def multiplying_in_numpy(gain: float | None = 2.8, **changes: Any) -> Profile:
    """A dataset that multiplies in NumPy, and what one thread for that gains, as it was timed."""
    probes = {} if gain is None else {"one_blas_thread": gain}
    return with_seen(replace(on_a_cpu(), probes=probes), **{"blas_threads": 2} | changes)


def taking_memory_anew(faults: int | None = 60_000, **changes: Any) -> Profile:
    """A program whose allocator gives back in each step what it takes again in the next."""
    windows = tuple(window(seconds=2.0, page_faults=faults and 2 * faults) for _ in range(3))
    return on_a_cpu(windows=windows, **changes)


def without_a_loader() -> Profile:
    """A program that makes its own batches."""
    return with_seen(on_a_cpu(ceilings=()), loader=None, batch_bytes=0)


def iterable() -> Profile:
    """A loader over an IterableDataset."""
    return with_loader(on_a_cpu(), iterable=True, length=None, dataset_length=None)


def settled() -> Profile:
    """A program that has everything set already."""
    given = with_loader(
        on_a_gpu(), num_workers=8, prefetch_factor=4, persistent_workers=True, pin_memory=True
    )
    given = with_model(given, channels_last=True, compiled="reduce-overhead", checkpointed=2)
    given = with_optimizer(given, fused=True)
    return with_seen(
        given, autocast="bfloat16", non_blocking=True, cudnn_benchmark=True, micro_batches=2
    )


PROFILES = {
    "on a CPU": on_a_cpu(),
    "waiting": waiting(),
    "waiting with workers": with_loader(waiting(), num_workers=4, prefetch_factor=2),
    "on a GPU": on_a_gpu(),
    "on an old GPU": with_machine(on_a_gpu(), capability=(7, 0)),
    "on a CPU with bf16": on_a_cpu(probes={"bf16_speedup": 3.1}),
    "short of memory on a CPU": short_of_memory(on_a_cpu()),
    "short of memory on a GPU": short_of_memory(on_a_gpu()),
    "with gaps in memory": with_gaps_in_memory(),
    "taking memory anew": taking_memory_anew(),
    "with denormal numbers": on_a_cpu(denormals=Denormals(results=0.02)),
    "multiplying in NumPy": multiplying_in_numpy(),
    "without a loader": without_a_loader(),
    "iterable": iterable(),
    "settled": settled(),
    "zeroing": with_seen(
        on_a_cpu(), set_to_none=False, places=Places(zero_grad=Place(path="train.py", line=1))
    ),
    "busy optimizer": on_a_cpu(
        phases={"data": 0.1, "forward": 0.2, "backward": 0.2, "optimizer": 0.5}
    ),
    "nothing seen": with_seen(
        on_a_cpu(ceilings=(), phases={}, data_processor_share=None),
        loader=None,
        models=(),
        optimizer=None,
    ),
}
