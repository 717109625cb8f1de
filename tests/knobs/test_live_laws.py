"""What is asked for is what a run has: given through the seams, and written into the source."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autotune.knobs import KNOBS, by_name, unobserved
from autotune.knobs.knob import Config, Knob, Semantics, Value
from autotune.measurement.processes.forks import Zygote
from autotune.measurement.processes.jobs import Job
from autotune.source.rewrite import rewrite
from autotune.workload.program.script import Program
from autotune.workload.seen import Seen
from tests.knobs.programs import PROGRAMS

STEPS = 12
START_LIMIT_SECONDS = 120.0
# Losses of runs that differ in rounding only stay this close for a dozen steps, bfloat16 included.
BAND = 0.05

# The program that shows a knob at work, where it is not the plain one.
SHOWN_BY = {"channels_last": "convnet", "checkpointing": "blocks", "compile": "blocks"}
# What a knob needs beside it to mean anything.
BESIDE: dict[str, Config] = {
    "prefetch_factor": {"num_workers": 2},
    "persistent_workers": {"num_workers": 2},
}
NEEDS_A_GPU = {
    ("non_blocking", True),
    ("prefetch_to_device", True),
    ("precision", "tf32"),
    ("expandable_segments", True),
}
TRIED: dict[str, tuple[Value, ...]] = {
    "num_workers": (0, 2),
    "prefetch_factor": (2, 3),
    "batch_size": (32, 64, 128),
    "micro_batches": (1, 2, 4),
    "checkpointing": (0, 1, 4, 5, -3),
}
TRIED |= {"threads": (1, 2), "blas_threads": (1, 2), "compile": ("off", "default")}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    seen: Seen
    losses: tuple[float, ...]


@dataclass(kw_only=True)
class Bench:
    """Runs the programs, each as often as it differs."""

    zygote: Zygote
    folder: Path
    done: dict[object, Outcome] = field(default_factory=dict)

    def path(self, name: str) -> str:
        path = self.folder / f"{name}.py"
        if not path.exists():
            path.write_text(PROGRAMS[name])
        return str(path)

    def own(self, name: str) -> Outcome:
        return self.run(name, {})

    def run(self, name: str, config: Config, text: str = "") -> Outcome:
        text = "" if text == PROGRAMS[name] else text
        key = (name, tuple(config.items()), text)
        if key not in self.done:
            self.done[key] = self._run(name, config, text)
        return self.done[key]

    def _run(self, name: str, config: Config, text: str) -> Outcome:
        path = self.path(name)
        program = Program(
            path=path, directory=str(self.folder), sources={path: text} if text else {}
        )
        loader = self.own(name).seen.training_loader() if config else None
        run = self.zygote.start(
            Job(program=program, config=config, training_loader=loader),
            limit_seconds=START_LIMIT_SECONDS,
        )
        try:
            window = run.window(0.0, steps=STEPS)
            return Outcome(seen=run.seen(), losses=window.losses[:STEPS])
        finally:
            run.kill()


@pytest.fixture(scope="module")
def bench(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(zygote=zygote, folder=tmp_path_factory.mktemp("programs"))


def values_of(knob: Knob) -> tuple[Value, ...]:
    values = TRIED.get(knob.name, tuple(knob.admits))
    return tuple(value for value in values if (knob.name, value) not in NEEDS_A_GPU)


def cases() -> Iterator[Any]:
    for knob in KNOBS:
        for value in values_of(knob):
            slow = [pytest.mark.slow] if knob.name == "compile" and value != "off" else []
            yield pytest.param(knob, value, id=f"{knob.name}={value}", marks=slow)


every_value = pytest.mark.parametrize(("knob", "value"), list(cases()))
every_value_of_the_same_training = pytest.mark.parametrize(
    ("knob", "value"),
    [each for each in cases() if each.values[0].semantics is not Semantics.DIFFERENT],
)


def shown_by(knob: Knob) -> str:
    return SHOWN_BY.get(knob.name, "mlp")


def same_losses(knob: Knob, these: tuple[float, ...], those: tuple[float, ...]) -> bool:
    assert len(these) == len(those) == STEPS
    if knob.semantics is Semantics.IDENTICAL:
        return these == those
    return these == pytest.approx(those, rel=BAND)


def patched(path: str, text: str, config: Config, seen: Seen) -> tuple[str, list[str]]:
    """The text with `config` written into it, and what became of each edit."""
    requests = [
        (knob.name, edit)
        for knob in KNOBS
        if knob.name in config
        for edit in knob.edits(config[knob.name], seen)
    ]
    result = rewrite({path: text}, requests, seen.places)
    return result.sources[path], [outcome.status for outcome in result.outcomes]


@every_value
def test_given_is_had(bench: Bench, knob: Knob, value: Value) -> None:
    config = {**BESIDE.get(knob.name, {}), knob.name: value}
    outcome = bench.run(shown_by(knob), config)
    assert knob.read(outcome.seen) == value
    assert unobserved(config, outcome.seen) == []


@every_value_of_the_same_training
def test_what_is_given_trains_the_same(bench: Bench, knob: Knob, value: Value) -> None:
    beside = BESIDE.get(knob.name, {})
    without = bench.run(shown_by(knob), beside)
    outcome = bench.run(shown_by(knob), {**beside, knob.name: value})
    assert same_losses(knob, outcome.losses, without.losses)


@every_value
def test_patched_is_had(bench: Bench, knob: Knob, value: Value) -> None:
    name = shown_by(knob)
    config = wanted(bench.own(name).seen, knob, value)
    text, statuses = patched(bench.path(name), PROGRAMS[name], config, bench.own(name).seen)
    assert set(statuses) <= {"done"}
    outcome = bench.run(name, {}, text)
    assert knob.read(outcome.seen) == value
    again, statuses = patched(bench.path(name), text, config, outcome.seen)
    assert again == text
    assert set(statuses) <= {"already"}


@every_value_of_the_same_training
def test_what_is_patched_trains_the_same(bench: Bench, knob: Knob, value: Value) -> None:
    name = shown_by(knob)
    config = wanted(bench.own(name).seen, knob, value)
    text, _ = patched(bench.path(name), PROGRAMS[name], config, bench.own(name).seen)
    without = bench.run(name, BESIDE.get(knob.name, {}))
    assert same_losses(knob, bench.run(name, {}, text).losses, without.losses)


def wanted(own: Seen, knob: Knob, value: Value) -> dict[str, Value]:
    """What of the knob's value, and of what it needs beside it, the program does not have."""
    config = {**BESIDE.get(knob.name, {}), knob.name: value}
    return {name: each for name, each in config.items() if by_name(name).read(own) != each}
