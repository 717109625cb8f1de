"""Programs that nobody measured, each with the seconds that its knobs make of a batch's parts."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.bench.simulated_loops import Loop, Program, Setting

_SWITCH, _OFF_ON = (False, True), (0, 1)
_OPTIMIZERS, _FORMATS = ("forloop", "foreach", "fused"), ("fp32", "bf16")
# The knobs that say how many there are of what a loop has.
_COUNTS = {"nw": "workers", "num_workers": "workers", "workers": "workers", "pf": "prefetch"}
_COUNTS |= {"thr": "threads", "threads": "threads"}


def _program(
    name: str, knobs: Mapping[str, tuple[object, ...]], **extra: object
) -> Callable[[Callable[[Setting], Loop]], Program]:
    """A program of a loop as a function makes it, but for what its knobs count."""

    def of(loop: Callable[[Setting], Loop]) -> Program:
        def counted(one: Setting) -> Loop:
            counts = {_COUNTS[knob]: int(float(str(one[knob]))) for knob in _COUNTS if knob in one}
            return replace(loop(one), **counts)

        return Program(name=f"simulated_{name}", knobs=knobs, loop=counted, extra=extra)

    return of


@_program(
    "decode",
    {"nw": (0, 1, 2, 4, 8), "pf": (2, 4), "cache": ("off", "ram")}
    | {"decode": ("pil", "turbo"), "shm": (0, 1), "thr": (1, 2, 4)},
    cores=4,
)
def _decode(one: Setting) -> Loop:
    cached = one["cache"] == "ram"
    decode = {"pil": 0.060, "turbo": 0.034}[str(one["decode"])]
    return Loop(
        batch=32,
        read=0.002 if cached else 0.012,
        decode=decode * (0.45 if cached else 1.0),
        send=0.002 if one["shm"] else 0.005,
        compute=0.030,
        optimizer=0.002,
        cores=4,
    )


@_program(
    "transformer",
    {"nw": (0, 1, 2), "mb": (32, 24, 16, 8), "thr": (1, 2), "amp": _FORMATS}
    | {"compile": ("off", "default", "max-autotune"), "attn": ("math", "flash")},
)
def _transformer(one: Setting) -> Loop:
    compute = 0.180 * (1.45 if one["amp"] == "bf16" else 1.0)
    compute *= {"off": 1.0, "default": 0.82, "max-autotune": 0.80}[str(one["compile"])]
    compute *= 0.86 if one["attn"] == "flash" else 1.0
    compute *= {32: 1.0, 24: 0.99, 16: 0.93, 8: 1.04}[int(one["mb"])]
    return Loop(
        batch=32,
        decode=0.004,
        compute=compute,
        optimizer=0.022 if one["compile"] == "off" else 0.018,
        serial=0.12,
    )


@_program(
    "optimizer",
    {"workers": (0, 1, 2), "threads": ("1.0", "2.0"), "zero_grad": ("none", "zero")}
    | {"optim": ("loop", "foreach", "fused"), "clip": ("loop", "foreach")}
    | {"getitems": ("False", "True")},
)
def _optimizer(one: Setting) -> Loop:
    optimizer = {"loop": 0.016, "foreach": 0.011, "fused": 0.006}[str(one["optim"])]
    optimizer += 0.0 if one["zero_grad"] == "none" else 0.002
    optimizer += 0.004 if one["clip"] == "loop" else 0.001
    return Loop(
        batch=64,
        decode=0.004 if one["getitems"] == "False" else 0.0018,
        send=0.002,
        compute=0.007,
        optimizer=optimizer,
        serial=0.85,
    )


@_program(
    "copy",
    {"num_workers": (0, 2, 4, 8), "pin_memory": _SWITCH, "non_blocking": _SWITCH}
    | {"amp": ("fp32", "tf32", "bf16"), "channels_last": _SWITCH, "compile": _SWITCH},
    cores=8,
)
def _copy(one: Setting) -> Loop:
    compute = 0.050 * {"fp32": 1.0, "tf32": 0.66, "bf16": 0.47}[str(one["amp"])]
    if one["channels_last"]:
        compute *= 0.78 if one["amp"] == "bf16" else 1.04
    compute *= 0.85 if one["compile"] else 1.0
    copy = 0.016 * (0.45 if one["pin_memory"] else 1.0)
    copy *= 0.25 if one["pin_memory"] and one["non_blocking"] else 1.0
    return Loop(
        batch=128,
        read=0.010,
        decode=0.090,
        send=0.004,
        compute=compute,
        optimizer=0.004,
        copy=copy,
        serial=1.0,
        cores=8,
        on_device=True,
    )


@_program(
    "threads",
    {"nw": (0, 1, 2, 3, 4), "thr": (1, 2, 3, 4), "pf": (2, 4), "cl": _SWITCH}
    | {"inplace": _SWITCH},
)
def _threads(one: Setting) -> Loop:
    return Loop(
        batch=16,
        read=0.003,
        decode=0.050 * (0.93 if one["inplace"] else 1.0),
        send=0.0015,
        compute=0.060 * (0.76 if one["cl"] else 1.0),
        optimizer=0.001,
        serial=0.1,
        cores=4,
    )


@_program(
    "decoys",
    {"nw": (0, 1, 2), "thr": (1, 2), "opt": _OPTIMIZERS}
    | {"cudnn_benchmark": _SWITCH, "persistent": _SWITCH, "set_to_none": _SWITCH}
    | {"gc_off": _SWITCH},
)
def _decoys(one: Setting) -> Loop:
    return Loop(
        batch=32,
        decode=0.018,
        compute=0.026 * (0.98 if one["cudnn_benchmark"] else 1.0),
        optimizer={"forloop": 0.010, "foreach": 0.007, "fused": 0.004}[str(one["opt"])],
        serial=0.5,
    )


@_program(
    "launches",
    {"nw": (0, 1, 2, 4), "pin_memory": _SWITCH, "amp": _FORMATS}
    | {"compile": ("off", "default", "reduce-overhead")}
    | {"opt": _OPTIMIZERS},
    cores=4,
)
def _launches(one: Setting) -> Loop:
    """Small operations on a device, which wait for the host to launch them."""
    mode = {"off": 1.0, "default": 0.62, "reduce-overhead": 0.38}[str(one["compile"])]
    return Loop(
        batch=64,
        read=0.001,
        decode=0.006,
        send=0.002,
        compute=0.034 * mode * (1.08 if one["amp"] == "bf16" else 1.0),
        optimizer={"forloop": 0.014, "foreach": 0.004, "fused": 0.002}[str(one["opt"])],
        copy=0.002 * (0.5 if one["pin_memory"] else 1.0),
        serial=1.0,
        cores=4,
        on_device=True,
        launching=0.9,
    )


@_program(
    "recomputing",
    {"nw": (0, 1), "mb": (16, 8, 4), "thr": (1, 2), "ckpt": _OFF_ON}
    | {"amp": _FORMATS, "compile": _OFF_ON, "opt": _OPTIMIZERS},
)
def _recomputing(one: Setting) -> Loop:
    """A language model that is well set: recomputing and short formats cost, little gains."""
    compute = 0.210 * (1.38 if one["ckpt"] else 1.0) * (6.0 if one["amp"] == "bf16" else 1.0)
    compute *= {16: 1.0, 8: 1.03, 4: 1.12}[int(one["mb"])]
    compute *= 0.88 if one["compile"] else 1.0
    return Loop(
        batch=16,
        decode=0.001,
        compute=compute,
        optimizer={"forloop": 0.030, "foreach": 0.026, "fused": 0.012}[str(one["opt"])],
        serial=0.1,
    )


@_program(
    "caches",
    {"nw": (0, 1, 2), "mb": (64, 32, 16, 8), "thr": (1, 2), "cl": _SWITCH} | {"amp": _FORMATS},
)
def _caches(one: Setting) -> Loop:
    """A convolutional model whose activations fit into caches where batches are small."""
    compute = 0.120 * {64: 1.0, 32: 0.9, 16: 0.82, 8: 0.86}[int(one["mb"])]
    compute *= 0.74 if one["cl"] else 1.0
    compute *= 9.0 if one["amp"] == "bf16" else 1.0
    return Loop(
        batch=64,
        decode=0.045,
        send=0.004,
        compute=compute,
        optimizer=0.004,
        serial=0.15,
    )


@_program(
    "disks",
    {"nw": (0, 1, 2, 4, 8), "io_threads": (0, 2, 4, 8), "pf": (2, 4), "thr": (1, 2)},
)
def _disks(one: Setting) -> Loop:
    """Files from far away."""
    fetching = max(1, int(one["io_threads"]))
    return Loop(
        batch=32,
        read=0.220 / fetching**0.93,
        decode=0.006 + 0.0004 * fetching,
        send=0.002,
        compute=0.011,
        optimizer=0.004,
        serial=0.6,
    )


@_program(
    "recurrent",
    {"nw": (0, 1, 2), "thr": (1, 2), "opt": _OPTIMIZERS}
    | {"compile": _SWITCH, "bucketing": _SWITCH, "set_to_none": _SWITCH},
)
def _recurrent(one: Setting) -> Loop:
    """Short operations one after another: threads wait for each other, compiling loses."""
    return Loop(
        batch=32,
        decode=0.008 * (0.6 if one["bucketing"] else 1.0),
        compute=0.055
        * (1.3 if one["compile"] else 1.0)
        * (0.85 if one["bucketing"] else 1.0)
        * (0.96 if one["set_to_none"] else 1.0),
        optimizer={"forloop": 0.012, "foreach": 0.008, "fused": 0.005}[str(one["opt"])],
        serial=0.9,
        meeting=0.006,
    )


@_program(
    "augmenting",
    {"nw": (0, 1, 2, 3, 4), "thr": (1, 2, 4), "transforms_v2": _SWITCH}
    | {"uint8": _SWITCH, "cl": _SWITCH},
    cores=4,
)
def _augmenting(one: Setting) -> Loop:
    """Images that are changed by chance before they are trained on."""
    decode = 0.080 * (0.55 if one["transforms_v2"] else 1.0)
    return Loop(
        batch=32,
        read=0.004,
        decode=decode * (0.8 if one["uint8"] else 1.0),
        send=0.006 * (0.4 if one["uint8"] else 1.0),
        compute=0.040 * (0.8 if one["cl"] else 1.0) * (1.05 if one["uint8"] else 1.0),
        optimizer=0.003,
        serial=0.2,
        cores=4,
    )


PROGRAMS = (_decode, _transformer, _optimizer, _copy, _threads, _decoys)
# What a change of the planner was tried on.
TRIED = (_launches, _recomputing, _caches, _disks, _recurrent, _augmenting)
