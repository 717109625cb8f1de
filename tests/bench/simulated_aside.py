"""Programs that nobody measured, kept aside while the planner was worked on."""

from tests.bench.simulated_loops import Loop, Program, Setting

_SWITCH = (False, True)
_OPTIMIZERS = ("forloop", "foreach", "fused")


def _tabular(one: Setting) -> Loop:
    """Rows of a table, one at a time unless fetched together; a step of nearly nothing."""
    return Loop(
        batch=256,
        decode=0.0042 * (0.3 if one["getitems"] else 1.0),
        send=0.0018,
        compute=0.0016 * (0.93 if one["inplace_relu"] else 1.0),
        optimizer={"forloop": 0.0014, "foreach": 0.0009, "fused": 0.0005}[str(one["opt"])],
        serial=0.95,
        meeting=0.0001,
        workers=int(one["nw"]),
        threads=int(one["thr"]),
    )


def _units(one: Setting) -> Loop:
    """Large products on processors that have units for short formats."""
    gain = {"fp32": 1.0, "bf16": 0.56}[str(one["precision"])]
    compute = 0.300 * gain * {32: 1.0, 16: 1.04, 8: 1.1}[int(one["mb"])]
    return Loop(
        batch=32,
        decode=0.040,
        send=0.003,
        compute=compute * (0.8 if one["compile"] == "default" else 1.0),
        optimizer={"forloop": 0.040, "foreach": 0.036, "fused": 0.015}[str(one["opt"])],
        serial=0.06,
        workers=int(one["nw"]),
        threads=int(one["thr"]),
        cores=4,
    )


def _splitting(one: Setting) -> Loop:
    """A model that is slower in parts, beside decoding that competes for two cores."""
    compute = 0.070 * {32: 1.0, 16: 1.15, 8: 1.4}[int(one["mb"])]
    return Loop(
        batch=32,
        decode=0.055,
        send=0.003,
        compute=compute * (0.82 if one["cl"] else 1.0) * (1.35 if one["compile"] else 1.0),
        optimizer=0.003,
        serial=0.25,
        workers=int(one["nw"]),
        threads=int(one["thr"]),
    )


def _embedding(one: Setting) -> Loop:
    """Tables of embeddings whose optimizer is most of a step."""
    optimizer = {"forloop": 0.050, "foreach": 0.044, "fused": 0.024}[str(one["opt"])]
    optimizer *= 0.35 if one["sparse"] and one["opt"] != "fused" else 1.0
    return Loop(
        batch=128,
        decode=0.010,
        compute=0.012,
        optimizer=optimizer + (0.0 if one["set_to_none"] else 0.004),
        serial=0.5,
        workers=int(one["nw"]),
        threads=int(one["thr"]),
    )


def _photos(one: Setting) -> Loop:
    """A device that waits for decoding on many cores."""
    compute = 0.090 * {"fp32": 1.0, "bf16": 0.5}[str(one["amp"])]
    compute *= 0.7 if one["channels_last"] and one["amp"] == "bf16" else 1.0
    return Loop(
        batch=64,
        read=0.020,
        decode=0.480,
        send=0.006,
        compute=compute * (0.96 if one["cudnn_benchmark"] else 1.0),
        optimizer=0.006,
        copy=0.010 * (0.4 if one["pin_memory"] else 1.0),
        serial=1.0,
        workers=int(one["nw"]),
        prefetch=int(one["pf"]),
        cores=8,
        on_device=True,
    )


def _nothing(one: Setting) -> Loop:
    """Switches that do nothing, and a few that lose."""
    compute = 0.060 * (1.1 if one["deterministic"] else 1.0) * (1.04 if one["anomaly"] else 1.0)
    return Loop(
        batch=32,
        decode=0.002,
        compute=compute,
        optimizer={"forloop": 0.0030, "foreach": 0.0028, "fused": 0.0027}[str(one["opt"])],
        serial=0.1,
        workers=int(one["nw"]),
        threads=int(one["thr"]),
    )


ASIDE = (
    Program(
        name="simulated_tabular",
        knobs={"nw": (0, 1, 2), "getitems": _SWITCH, "opt": _OPTIMIZERS, "thr": (1, 2)}
        | {"inplace_relu": _SWITCH, "persistent": _SWITCH},
        loop=_tabular,
        extra={},
    ),
    Program(
        name="simulated_units",
        knobs={"nw": (0, 1, 2), "mb": (32, 16, 8), "thr": (1, 2, 4), "opt": _OPTIMIZERS}
        | {"precision": ("fp32", "bf16"), "compile": ("off", "default")},
        loop=_units,
        extra={"cores": 4},
    ),
    Program(
        name="simulated_splitting",
        knobs={"nw": (0, 1, 2, 3), "mb": (32, 16, 8), "thr": (1, 2), "cl": _SWITCH}
        | {"compile": _SWITCH},
        loop=_splitting,
        extra={},
    ),
    Program(
        name="simulated_embedding",
        knobs={"nw": (0, 1, 2), "thr": (1, 2), "opt": _OPTIMIZERS, "sparse": _SWITCH}
        | {"set_to_none": (True, False)},
        loop=_embedding,
        extra={},
    ),
    Program(
        name="simulated_photos",
        knobs={"nw": (0, 1, 2, 4, 8, 12), "pf": (2, 4), "amp": ("fp32", "bf16")}
        | {"channels_last": _SWITCH, "cudnn_benchmark": _SWITCH, "pin_memory": _SWITCH},
        loop=_photos,
        extra={"cores": 8},
    ),
    Program(
        name="simulated_nothing",
        knobs={"nw": (0, 1, 2), "thr": (1, 2), "opt": _OPTIMIZERS, "deterministic": _SWITCH}
        | {"anomaly": _SWITCH, "gc_off": _SWITCH},
        loop=_nothing,
        extra={},
    ),
)
