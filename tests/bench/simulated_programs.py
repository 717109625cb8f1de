"""Programs that nobody measured, each with the seconds that its knobs make of a batch's parts."""

from tests.bench.simulated_loops import Loop, Program, Setting


def _decode(one: Setting) -> Loop:
    workers, cached = int(one["nw"]), one["cache"] == "ram"
    decode = {"pil": 0.060, "turbo": 0.034}[str(one["decode"])]
    return Loop(
        batch=32,
        read=0.002 if cached else 0.012,
        decode=decode * (0.45 if cached else 1.0),
        send=0.002 if one["shm"] else 0.005,
        compute=0.030,
        optimizer=0.002,
        workers=workers,
        prefetch=int(one["pf"] or 2),
        threads=int(one["thr"]),
        cores=4,
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
        workers=int(one["nw"]),
        threads=int(one["thr"]),
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
        workers=int(one["workers"]),
        threads=int(one["threads"]),
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
        workers=int(one["num_workers"]),
        cores=8,
        on_device=True,
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
        workers=int(one["nw"]),
        prefetch=int(one["pf"]),
        threads=int(one["thr"]),
        cores=4,
    )


def _decoys(one: Setting) -> Loop:
    return Loop(
        batch=32,
        decode=0.018,
        compute=0.026 * (0.98 if one["cudnn_benchmark"] else 1.0),
        optimizer={"forloop": 0.010, "foreach": 0.007, "fused": 0.004}[str(one["opt"])],
        serial=0.5,
        workers=int(one["nw"]),
        threads=int(one["thr"]),
    )


_SWITCH = (False, True)
PROGRAMS = (
    Program(
        name="simulated_decode",
        knobs={"nw": (0, 1, 2, 4, 8), "pf": (2, 4), "cache": ("off", "ram")}
        | {"decode": ("pil", "turbo"), "shm": (0, 1), "thr": (1, 2, 4)},
        loop=_decode,
        extra={"cores": 4},
    ),
    Program(
        name="simulated_transformer",
        knobs={"nw": (0, 1, 2), "mb": (32, 24, 16, 8), "thr": (1, 2), "amp": ("fp32", "bf16")}
        | {"compile": ("off", "default", "max-autotune"), "attn": ("math", "flash")},
        loop=_transformer,
        extra={},
    ),
    Program(
        name="simulated_optimizer",
        knobs={"workers": (0, 1, 2), "threads": ("1.0", "2.0"), "zero_grad": ("none", "zero")}
        | {"optim": ("loop", "foreach", "fused"), "clip": ("loop", "foreach")}
        | {"getitems": ("False", "True")},
        loop=lambda one: _optimizer({**one, "threads": float(str(one["threads"]))}),
        extra={},
    ),
    Program(
        name="simulated_copy",
        knobs={"num_workers": (0, 2, 4, 8), "pin_memory": _SWITCH, "non_blocking": _SWITCH}
        | {"amp": ("fp32", "tf32", "bf16"), "channels_last": _SWITCH, "compile": _SWITCH},
        loop=_copy,
        extra={"cores": 8},
    ),
    Program(
        name="simulated_threads",
        knobs={"nw": (0, 1, 2, 3, 4), "thr": (1, 2, 3, 4), "pf": (2, 4), "cl": _SWITCH}
        | {"inplace": _SWITCH},
        loop=_threads,
        extra={},
    ),
    Program(
        name="simulated_decoys",
        knobs={"nw": (0, 1, 2), "thr": (1, 2), "opt": ("forloop", "foreach", "fused")}
        | {"cudnn_benchmark": _SWITCH, "persistent": _SWITCH, "set_to_none": _SWITCH}
        | {"gc_off": _SWITCH},
        loop=_decoys,
        extra={},
    ),
)
