"""Runs of scripts given as text, forked from the warm process of all tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotune.knobs.knob import Config
from autotune.measurement.processes.forks import Zygote
from autotune.measurement.processes.jobs import Job
from autotune.measurement.processes.process import ProcessRun
from autotune.workload.program.script import Program
from autotune.workload.seen import LoaderKey

Start = Callable[..., ProcessRun]


@pytest.fixture
def start(zygote: Zygote, tmp_path: Path) -> Iterator[Start]:
    """Starts a script given as text; every run is ended with the test."""
    runs: list[ProcessRun] = []

    def started(
        text: str,
        *,
        config: Config | None = None,
        training_loader: LoaderKey | None = None,
        limit_seconds: float = 60.0,
    ) -> ProcessRun:
        path = tmp_path / "train.py"
        path.write_text(text)
        program = Program(path=str(path), directory=str(tmp_path))
        job = Job(
            program=program, config=config or {}, training_loader=training_loader, phases=True
        )
        runs.append(zygote.start(job, limit_seconds=limit_seconds))
        return runs[-1]

    yield started
    for run in runs:
        run.kill()
