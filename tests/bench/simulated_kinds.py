"""More programs that nobody measured: those that a change of the planner was tried on, and those
that were kept aside meanwhile.
"""

from tests.bench.simulated_loops import Loop, Program, Setting

_SWITCH = (False, True)
_OFF_ON = (0, 1)


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
        workers=int(one["nw"]),
        cores=4,
        on_device=True,
        launching=0.9,
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
        workers=int(one["nw"]),
        threads=int(one["thr"]),
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
        workers=int(one["nw"]),
        threads=int(one["thr"]),
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
        workers=int(one["nw"]),
        prefetch=int(one["pf"]),
        threads=int(one["thr"]),
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
        workers=int(one["nw"]),
        threads=int(one["thr"]),
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
        workers=int(one["nw"]),
        threads=int(one["thr"]),
        cores=4,
    )


# What a change of the planner was tried on.
TRIED = (
    Program(
        name="simulated_launches",
        knobs={"nw": (0, 1, 2, 4), "pin_memory": _SWITCH, "amp": ("fp32", "bf16")}
        | {"compile": ("off", "default", "reduce-overhead")}
        | {"opt": ("forloop", "foreach", "fused")},
        loop=_launches,
        extra={"cores": 4},
    ),
    Program(
        name="simulated_recomputing",
        knobs={"nw": (0, 1), "mb": (16, 8, 4), "thr": (1, 2), "ckpt": _OFF_ON}
        | {"amp": ("fp32", "bf16"), "compile": _OFF_ON, "opt": ("forloop", "foreach", "fused")},
        loop=_recomputing,
        extra={},
    ),
    Program(
        name="simulated_caches",
        knobs={"nw": (0, 1, 2), "mb": (64, 32, 16, 8), "thr": (1, 2), "cl": _SWITCH}
        | {"amp": ("fp32", "bf16")},
        loop=_caches,
        extra={},
    ),
    Program(
        name="simulated_disks",
        knobs={"nw": (0, 1, 2, 4, 8), "io_threads": (0, 2, 4, 8), "pf": (2, 4), "thr": (1, 2)},
        loop=_disks,
        extra={},
    ),
    Program(
        name="simulated_recurrent",
        knobs={"nw": (0, 1, 2), "thr": (1, 2), "opt": ("forloop", "foreach", "fused")}
        | {"compile": _SWITCH, "bucketing": _SWITCH, "set_to_none": _SWITCH},
        loop=_recurrent,
        extra={},
    ),
    Program(
        name="simulated_augmenting",
        knobs={"nw": (0, 1, 2, 3, 4), "thr": (1, 2, 4), "transforms_v2": _SWITCH}
        | {"uint8": _SWITCH, "cl": _SWITCH},
        loop=_augmenting,
        extra={"cores": 4},
    ),
)
