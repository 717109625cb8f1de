"""Whole results as a real run leaves them, for tests of what comes after it."""

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autotune.diagnosis import Bottleneck, Finding
from autotune.knobs.knob import Config, Value
from autotune.machine import Machine
from autotune.measurement.measurement import Failure, Measurement
from autotune.profiling.profile import Ceiling, Doubt, Memory, Profile
from autotune.result import Cost, Result, SearchFacts, TargetFacts
from autotune.source.edits import (
    Accumulate,
    Autocast,
    EditOutcome,
    LoaderArgument,
    ModelStatement,
    Place,
    Places,
    ProcessStatement,
)
from autotune.trials.space import SkippedKnob, Space
from autotune.trials.trial import Trial
from autotune.verdict import Delivered, Parity, Ratio, Verdict
from autotune.workload.seen import Seen, SeenLoader, SeenModel, SeenOptimizer
from autotune.workload.window import DRAIN, Window

MIB = 1 << 20
GIB = 1 << 30
BATCH = 32
PROGRAM = "/home/ada/project/photos.py"

PATCH = """\
--- a/photos.py
+++ b/photos.py
@@ -8,6 +8,8 @@
 from torch.utils.data import DataLoader, Dataset
 
 from augment import random_crop
+
+torch.set_num_threads(1)
 
 
 class Photos(Dataset):
@@ -61,8 +63,14 @@ def main() -> None:
-    loader = DataLoader(Photos(args.data), batch_size=32, shuffle=True)
-    model = ResNet(classes=10)
+    loader = DataLoader(
+        Photos(args.data),
+        batch_size=32,
+        shuffle=True,
+        num_workers=4,
+        persistent_workers=True,
+    )
+    model = ResNet(classes=10).to(memory_format=torch.channels_last)
     optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
     for epoch in range(args.epochs):
         for images, labels in loader:
"""  # noqa: W293 - an unchanged empty line of a patch is a space


def machine(**changes: Any) -> Machine:
    """Two cores of a server without a GPU."""
    given: dict[str, Any] = {
        "device": "cpu",
        "device_name": "AMD EPYC 7763 64-Core Processor",
        "device_memory_bytes": 8 * GIB,
        "capability": None,
        "cores": 2,
        "memory_bytes": 8 * GIB,
        "shared_memory_bytes": 2 * GIB,
        "compiler": "/usr/bin/c++",
        "versions": {"python": "3.11.9", "torch": "2.13.0", "autotune": "0.1.0"},
        "system": "Linux 6.8.0",
    }
    return Machine(**given | changes)


def seen(**changes: Any) -> Seen:
    """An image classifier: one loader without workers, one ResNet, one SGD."""
    given: dict[str, Any] = {
        "loader": SeenLoader(
            dataset="Photos",
            batch_size=BATCH,
            num_workers=0,
            prefetch_factor=None,
            persistent_workers=False,
            pin_memory=False,
            shuffle=True,
            drop_last=False,
            iterable=False,
            custom_batches=False,
            length=63,
            dataset_length=2000,
        ),
        "models": (
            SeenModel(
                name="ResNet",
                parameters=272_474,
                parameter_bytes=1_089_896,
                buffer_bytes=6_240,
                dtype="float32",
                device="cpu",
                convolutions=19,
                batch_norms=19,
                dropouts=0,
                channels_last=False,
                compiled="off",
                checkpointed=0,
                blocks=("layer1.0", "layer1.1"),
            ),
        ),
        "optimizer": SeenOptimizer(
            parameters=272_474,
            name="SGD",
            fused=None,
            foreach=None,
            takes_fused=True,
            takes_foreach=True,
            closure=False,
            state_bytes=1_089_896,
            trained_bytes=1_089_896,
        ),
        "optimizers": 1,
        "backwards_per_step": 1.0,
        "samples_per_step": float(BATCH),
        "batch": ("float32[32, 3, 64, 64]", "int64[32]"),
        "batch_bytes": 1_573_120,
        "threads": 2,
        "places": Places(loader=Place(path=PROGRAM, line=63), step=Place(path=PROGRAM, line=70)),
    }
    return Seen(**given | changes)


def window(samples_per_second: float = 180.0, *, steps: int = 12, **changes: Any) -> Window:
    """A stretch of `steps` steps at about the given speed, uneven as real ones are."""
    chance = random.Random(f"{samples_per_second} {steps}")
    times = [BATCH / samples_per_second * chance.lognormvariate(0, 0.08) for _ in range(steps)]
    seconds = sum(times)
    given: dict[str, Any] = {
        "mode": "as_is",
        "steps": steps,
        "samples": steps * BATCH,
        "seconds": seconds,
        "step_seconds": tuple(times),
        "phases": {"data": seconds * 0.71, "forward": seconds * 0.1, "backward": seconds * 0.15},
        "cpu_seconds": seconds * 1.4,
        "losses": losses(steps),
        "peak_bytes": 356 * MIB,
    }
    return Window(**given | changes)


def losses(steps: int, *, seed: int = 0) -> tuple[float, ...]:
    """A falling loss curve with noise."""
    chance = random.Random(seed)
    return tuple(
        0.4 + 1.9 * math.exp(-3 * step / max(steps, 60)) + chance.gauss(0, 0.12)
        for step in range(steps)
    )


def profile(**changes: Any) -> Profile:
    """A step that waits for its data 71 % of the time."""
    given: dict[str, Any] = {
        "machine": machine(),
        "seen": seen(),
        "samples_per_second": 180.4,
        "interval": (174.9, 186.1),
        "step_seconds": 0.1774,
        "phases": {
            "data": 0.71,
            "forward": 0.094,
            "backward": 0.148,
            "optimizer": 0.021,
            "other": 0.027,
        },
        "not_measured": {"copy": "the model is on the CPU: nothing is copied to a device"},
        "ceilings": (
            Ceiling(name="compute", samples_per_second=612.0, max_gain=3.39),
            Ceiling(
                name="host",
                samples_per_second=None,
                max_gain=None,
                reason="the model is on the CPU: nothing is copied to a device",
            ),
            Ceiling(name="data", samples_per_second=252.0, max_gain=1.40),
        ),
        "memory": Memory(
            peak_bytes=356 * MIB,
            parameter_bytes=1_089_896,
            gradient_bytes=1_089_896,
            optimizer_bytes=1_089_896,
            activation_bytes=None,
            capacity_bytes=8 * GIB,
        ),
        "data_processor_share": 0.97,
        "processors_used": 1.38,
        "validation_share": 0.06,
        "startup_seconds": 2.31,
        "overhead_share": 0.004,
        "windows": (window(181.0), window(179.2), window(252.0, mode=DRAIN)),
        "probes": {"bf16_speedup": 0.21},
        "budget_seconds": 60.0,
    }
    return Profile(**given | changes)


def findings() -> tuple[Finding, ...]:
    """Held back by its loader, and a little by its convolutions."""
    return (
        Finding(
            bottleneck=Bottleneck.DATA,
            severity="critical",
            evidence="The loader has no workers and keeps 0.97 of a core busy decoding, while the "
            "model waits.",
            max_gain=3.39,
            headline="Waits for data 71 % of each step; loading faster can gain up to 3.4x.",
        ),
        Finding(
            bottleneck=Bottleneck.COMPUTE,
            severity="info",
            evidence="Forward and backward are 24 % of a step; 19 convolutions run in the default "
            "memory format.",
            max_gain=None,
            headline="Computes for 24 % of each step.",
        ),
    )


def target(**changes: Any) -> TargetFacts:
    """An unmodified script with two arguments."""
    given: dict[str, Any] = {
        "kind": "script",
        "name": "photos",
        "path": PROGRAM,
        "arguments": ("--epochs", "3"),
        "source_sha256": "9f2c" * 16,
    }
    return TargetFacts(**given | changes)


def measurement(samples_per_second: float, **changes: Any) -> Measurement:
    """A timed run of three windows."""
    windows = tuple(window(samples_per_second * each) for each in (0.98, 1.01, 1.0))
    given: dict[str, Any] = {
        "samples_per_second": samples_per_second,
        "interval": (samples_per_second * 0.95, samples_per_second * 1.05),
        "windows": windows,
        "seen": seen(),
        "startup_seconds": 0.4,
        "peak_bytes": 356 * MIB,
        "losses": losses(36),
    }
    return Measurement(**given | changes)


def trial(number: int, config: Config, outcome: float | Measurement | Failure) -> Trial:
    """A trial; a plain number is the samples per second that it measured."""
    if isinstance(outcome, (int, float)):
        outcome = measurement(float(outcome))
    return Trial(number=number, config=config, outcome=outcome, seconds=3.1 + 0.07 * number)


TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ada/project/photos.py", line 71, in main
    loss = criterion(model(images), labels)
RuntimeError: view size is not compatible with input tensor's size and stride
"""


def trials() -> tuple[Trial, ...]:
    """A search that found its way, with one of each common failure on it."""
    tried: list[tuple[dict[str, Value], float | Measurement | Failure]] = [
        ({}, 180.4),
        ({"num_workers": 2}, 243.0),
        ({"num_workers": 4, "persistent_workers": True}, 262.0),
        ({"num_workers": 2, "threads": 1}, 301.0),
        (
            {"num_workers": 2, "precision": "bf16"},
            Failure(kind="hung", reason="No step within 12 s, 20 times the program's own pace."),
        ),
        ({"num_workers": 4, "threads": 1, "persistent_workers": True}, 322.0),
        (
            {"num_workers": 4, "threads": 1, "channels_last": True, "compile": "default"},
            Failure(
                kind="crashed",
                reason="RuntimeError: view size is not compatible with input tensor's size.",
                output=TRACEBACK,
            ),
        ),
        (
            {"num_workers": 4, "threads": 1, "channels_last": True},
            measurement(
                371.0,
                doubts=(
                    Doubt(
                        name="unstable",
                        evidence="Windows differ by 11 %.",
                        advice="Close other programs and search again.",
                    ),
                ),
            ),
        ),
        (
            {"num_workers": 4, "threads": 1, "channels_last": True, "optimizer": "fused"},
            Failure(kind="void", reason="optimizer=fused was asked for and not observed."),
        ),
        (
            {
                "num_workers": 4,
                "threads": 1,
                "channels_last": True,
                "persistent_workers": True,
            },
            388.0,
        ),
        ({"num_workers": 8, "threads": 1, "channels_last": True}, 344.0),
    ]
    return tuple(trial(number, *each) for number, each in enumerate(tried))


def energies() -> tuple[Trial, ...]:
    """The same search on a device that says what it draws, in most of its trials."""
    known = {0: 2.3, 1: 1.9, 3: 1.5, 5: 1.2, 7: 1.4, 9: 1.3}
    return tuple(
        replace(each, outcome=replace(each.outcome, joules_per_sample=known.get(each.number)))
        if isinstance(each.outcome, Measurement)
        else each
        for each in trials()
    )


def space() -> Space:
    """Four knobs searched, five left out."""
    return Space(
        choices={
            "num_workers": (0, 1, 2, 4, 8),
            "persistent_workers": (False, True),
            "threads": (1, 2),
            "channels_last": (False, True),
            "precision": ("fp32", "bf16"),
        },
        own={
            "num_workers": 0,
            "persistent_workers": False,
            "threads": 2,
            "channels_last": False,
            "precision": "fp32",
        },
        skipped=(
            SkippedKnob(knob="pin_memory", reason="The model is on the CPU: nothing is copied."),
            SkippedKnob(knob="non_blocking", reason="The model is on the CPU: nothing is copied."),
            SkippedKnob(knob="cudnn_benchmark", reason="There is no CUDA device."),
            SkippedKnob(
                knob="compile", reason="Compiling takes 21 s or more, which this budget cannot pay."
            ),
            SkippedKnob(
                knob="optimizer", reason="The optimizer takes 2 % of a step: less than noise."
            ),
        ),
    )


def edits() -> tuple[EditOutcome, ...]:
    """One edit of each outcome."""
    return (
        EditOutcome(
            knob="num_workers", edit=LoaderArgument(name="num_workers", code="4"), status="done"
        ),
        EditOutcome(
            knob="channels_last",
            edit=ModelStatement(code="{model}.to(memory_format=torch.channels_last)"),
            status="done",
        ),
        EditOutcome(
            knob="threads", edit=ProcessStatement(code="torch.set_num_threads(1)"), status="already"
        ),
        EditOutcome(
            knob="micro_batches",
            edit=Accumulate(steps=2),
            status="refused",
            reason="The loop body is in a library.",
            hand_step="train.py:88  loss = loss / 2",
        ),
        EditOutcome(
            knob="precision",
            edit=Autocast(device_type="cpu", dtype="bfloat16"),
            status="refused",
            reason="The loss is computed in another function.",
        ),
    )


def turns(**rates: float) -> dict[str, tuple[tuple[int, float], ...]]:
    """Eight windows of each contestant about its rate."""
    found: dict[str, tuple[tuple[int, float], ...]] = {}
    for name, rate in rates.items():
        chance = random.Random(name)
        samples = BATCH * max(1, round(rate * 0.8 / BATCH))
        found[name] = tuple(
            (samples, samples / (rate * chance.lognormvariate(0, 0.05))) for _ in range(8)
        )
    return found


def parity(steps: int = 400, **changes: Any) -> Parity:
    """Two curves of the same training in another rounding."""
    given: dict[str, Any] = {
        "same_training": True,
        "max_relative_loss_difference": 0.031,
        "band": 0.061,
        "steps": steps,
        "baseline_losses": losses(steps),
        "tuned_losses": losses(steps, seed=1),
    }
    return Parity(**given | changes)


def verdict(**changes: Any) -> Verdict:
    """Twice as fast, the same training, and the emitted program keeps it."""
    given: dict[str, Any] = {
        "outcome": "faster",
        "reason": "Measured in 8 turns with the program as it is; the interval excludes 1.",
        "config": {
            "num_workers": 4,
            "threads": 1,
            "channels_last": True,
            "persistent_workers": True,
        },
        "speedup": Ratio(estimate=2.12, low=1.98, high=2.27),
        "baseline_samples_per_second": 180.4,
        "tuned_samples_per_second": 382.4,
        "delivered": Delivered(
            samples_per_second=379.8,
            speedup=Ratio(estimate=2.11, low=1.96, high=2.25),
            settings_observed=True,
        ),
        "parity": parity(),
        "turns": turns(baseline=180.4, tuned=382.4, delivered=379.8),
        "rounds": (4, 4),
        "left_out": 1,
    }
    return Verdict(**given | changes)


def search_result(**changes: Any) -> Result:
    """A search that made its program faster, with failures on the way."""
    given: dict[str, Any] = {
        "target": target(),
        "profile": profile(),
        "diagnosis": findings(),
        "space": space(),
        "trials": trials(),
        "verdict": verdict(),
        "cost": Cost(seconds=61.8, trials=11, break_even_steps=660),
        "edits": edits(),
        "patch": PATCH,
        "protection": "A mount namespace with an overlay: what the program wrote was thrown away.",
        "command": ("autotune", "search", "photos.py", "--budget", "60s", "--", "--epochs", "3"),
        "started_at": "2026-11-21T04:25:10+00:00",
        "seed": 7,
    }
    return Result(**given | changes)


def search_facts(**changes: Any) -> SearchFacts:
    """What is said of the search itself, beside its trials."""
    given: dict[str, Any] = {"key": "photos-1-2", "sampler": "profile", "patience_seconds": 3.0}
    return SearchFacts(**given | changes)


def no_gain_result(**changes: Any) -> Result:
    """A search on a program that is well set already."""
    given: dict[str, Any] = {
        "verdict": verdict(
            outcome="no_gain",
            reason="The best of 6 settings came out 1.01x, and its interval includes 1.",
            config={},
            speedup=Ratio(estimate=1.01, low=0.97, high=1.05),
            tuned_samples_per_second=182.2,
            delivered=None,
            parity=None,
            turns=turns(baseline=180.4, tuned=182.2),
        ),
        "profile": profile(
            phases={
                "data": 0.01,
                "forward": 0.34,
                "backward": 0.6,
                "optimizer": 0.04,
                "other": 0.01,
            },
            ceilings=(
                Ceiling(name="compute", samples_per_second=182.0, max_gain=1.01),
                Ceiling(name="data", samples_per_second=9400.0, max_gain=52.1),
            ),
        ),
        "diagnosis": (
            Finding(
                bottleneck=Bottleneck.COMPUTE,
                severity="info",
                evidence="Forward and backward are 94 % of a step and keep both cores busy.",
                max_gain=None,
                headline="Computes for 94 % of each step.",
            ),
        ),
        "trials": tuple(
            trial(number, {"threads": number} if number else {}, 180.0 - number)
            for number in range(6)
        ),
        "cost": Cost(seconds=48.0, trials=6, break_even_steps=None),
        "edits": (),
        "patch": "",
    }
    return search_result(**given | changes)


def profile_result(**changes: Any) -> Result:
    """What `autotune profile` alone leaves."""
    given: dict[str, Any] = {
        "target": target(),
        "profile": profile(),
        "diagnosis": findings(),
        "command": ("autotune", "profile", "photos.py"),
        "started_at": "2026-11-21T04:25:10+00:00",
        "protection": "Redirected writes: what the program wrote was thrown away.",
    }
    return Result(**given | changes)


def failed_result(**changes: Any) -> Result:
    """A search that could not tell: the machine was too busy."""
    given: dict[str, Any] = {
        "verdict": verdict(
            outcome="failed",
            reason="The machine was too busy: the program did not get its processors three times.",
            config={},
            speedup=None,
            tuned_samples_per_second=None,
            delivered=None,
            parity=None,
            turns={},
            rounds=(),
        ),
        "trials": (
            trial(0, {}, 180.4),
            trial(1, {"num_workers": 2}, Failure(kind="busy", reason="Too busy, three times.")),
        ),
        "cost": Cost(seconds=33.0, trials=2, break_even_steps=None),
        "edits": (),
        "patch": "",
    }
    return search_result(**given | changes)


def large_result(trials: int = 100, steps: int = 2000) -> Result:
    """As much as a long search leaves: many trials and long loss curves."""
    chance = random.Random(3)
    tried = [trial(0, {}, 180.4)]
    for number in range(1, trials):
        config: Mapping[str, Value] = {
            "num_workers": chance.choice((1, 2, 4, 8)),
            "threads": chance.choice((1, 2)),
            "channels_last": chance.random() < 0.5,
            "persistent_workers": chance.random() < 0.5,
            "prefetch_factor": chance.choice((2, 4, 8)),
        }
        failed = Failure(kind="out_of_memory", reason="Needed 9.1 GiB; the device has 8 GiB.")
        tried.append(
            trial(number, config, failed if chance.random() < 0.1 else chance.uniform(150, 390))
        )
    return search_result(trials=tuple(tried), verdict=verdict(parity=parity(steps)))
