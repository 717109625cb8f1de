"""Programs with a trap in them, run in real processes."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from autotune.knobs.knob import Config, Value
from autotune.measurement.processes.forks import Zygote
from autotune.measurement.processes.jobs import Job
from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.untimed.divided import vet_micro_batches
from autotune.measurement.untimed.flushing import vet_flushing
from autotune.measurement.untimed.gradients import vet_freed_gradients
from autotune.measurement.untimed.rounding import vet_formats
from autotune.measurement.untimed.vetted import Vetted
from autotune.measurement.untimed.vetting import vet_workers
from autotune.workload.program.script import Program
from autotune.workload.program.target import Target, load_target
from autotune.workload.seen import LoaderKey, Seen

Vet = Callable[[str, Sequence[Value]], Vetted]
STEPS_TAKE = 0.05  # seconds, a few of these programs' steps at least


class Bench:
    """Starts one program, as the workbench does, without a sandbox."""

    def __init__(self, zygote: Zygote, path: Path) -> None:
        self._zygote = zygote
        self._path = path
        self._runs: list[ProcessRun] = []
        self._key: LoaderKey | None = None

    def start(
        self,
        config: Config,
        *,
        alike: bool = False,
        epoch_batches: int = 0,
        littered: bool = False,
        text: str = "",
    ) -> ProcessRun:
        path, sources = str(self._path), {str(self._path): text} if text else {}
        job = Job(
            program=Program(path=path, directory=str(self._path.parent), sources=sources),
            config=config,
            training_loader=self._key if config else None,
            alike=alike,
            epoch_batches=epoch_batches,
            littered=littered,
        )
        self._runs.append(self._zygote.start(job, limit_seconds=60))
        return self._runs[-1]

    @property
    def target(self) -> Target:
        """The program as it is named."""
        return load_target(self._path)

    def observe(self) -> Seen:
        """The program as it is; remembers which loader trains."""
        run = self.start({})
        seen = run.seen()
        run.kill()
        self._key = seen.training_loader()
        return seen

    def close(self) -> None:
        for run in self._runs:
            run.kill()


@pytest.fixture
def bench(zygote: Zygote, tmp_path: Path) -> Iterator[Callable[[str], Bench]]:
    """Makes a bench of a program given as text."""
    made: list[Bench] = []

    def make(text: str) -> Bench:
        path = tmp_path / "train.py"
        path.write_text(text)
        made.append(Bench(zygote, path))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def workers(bench: Callable[[str], Bench], monkeypatch: pytest.MonkeyPatch) -> Vet:
    """Vets numbers of loader workers of a program given as text."""
    monkeypatch.setattr("autotune.measurement.untimed.copies.LOOKED_SECONDS", STEPS_TAKE)

    def vet(text: str, values: Sequence[Value]) -> Vetted:
        made = bench(text)
        loader = made.observe().loader
        assert loader is not None
        return vet_workers(made.start, made.target, loader, values, seconds=1.0)

    return vet


@pytest.fixture
def parts(bench: Callable[[str], Bench]) -> Vet:
    """Vets numbers of micro-batches of a program given as text."""

    def vet(text: str, values: Sequence[Value]) -> Vetted:
        made = bench(text)
        made.observe()
        return vet_micro_batches(made.start, "fp32", values)

    return vet


@pytest.fixture
def freed(bench: Callable[[str], Bench]) -> Vet:
    """Vets freed gradients of a program given as text, which asks for zeros."""

    def vet(text: str, values: Sequence[Value]) -> Vetted:
        made = bench(text)
        assert not made.observe().set_to_none
        return vet_freed_gradients(
            made.start, values, False, step_seconds=0.01, seconds=0.0, most_seconds=10.0
        )

    return vet


@pytest.fixture
def rounding(bench: Callable[[str], Bench]) -> Vet:
    """Vets number formats of a program given as text."""
    return lambda text, values: vet_formats(bench(text).start, values, 0.2)


@pytest.fixture
def flushing(bench: Callable[[str], Bench]) -> Vet:
    """Vets zeros for denormal numbers of a program given as text."""
    return lambda text, values: vet_flushing(bench(text).start, values)
