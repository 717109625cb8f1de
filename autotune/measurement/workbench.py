"""Where one program's runs are started from: a warm process to fork them, a sandbox to protect the
user's files.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from autotune.knobs.knob import Config
from autotune.measurement.forks import Zygote
from autotune.measurement.jobs import Job
from autotune.measurement.process import ProcessRun
from autotune.measurement.sandbox import (
    Layer,
    Sandbox,
    environment,
    protected_directories,
    quiet_environment,
)
from autotune.workload.seen import LoaderKey
from autotune.workload.target import Target

# A program may load its data for minutes before its first step; what it took once, times this, is
# its limit after that.
FIRST_START_LIMIT_SECONDS = 600.0
LATER_STARTS_TAKE_AT_MOST = 5.0
LIMIT_FLOOR_SECONDS = 60.0
COMPILING_LIMIT_SECONDS = 300.0


class Workbench:
    """Starts runs of `target`; a context manager, at whose end all of them and all that they wrote
    are gone.

    Args:
        target: the program.
        seed: that every run's random streams start from, so that runs can be compared batch by
            batch.
        out: directory that autotune itself writes to.
    """

    def __init__(self, target: Target, *, seed: int = 0, out: Path | None = None) -> None:
        self._target = target
        self._seed = seed
        self._sandbox = Sandbox(
            protected_directories(
                Path(target.path or Path(target.directory) / "training"),
                target.arguments,
                [Path(target.directory)],
            ),
            kept=[out] if out else [],
        )
        scratch = self._sandbox.scratch
        self._zygote = Zygote({**environment(scratch), **quiet_environment(scratch)})
        self._layers: dict[int, Layer] = {}
        self._longest_start_seconds: float | None = None
        self.training_loader: LoaderKey | None = None

    def __enter__(self) -> "Workbench":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zygote.close()
        self._sandbox.close()

    @property
    def protection(self) -> str:
        """How the user's files are protected, in a sentence."""
        return self._sandbox.description

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(*arguments)` in a fresh process, with torch at hand."""
        return self._zygote.call(function, *arguments)

    def start(
        self, config: Config | None = None, *, sources: Mapping[str, str] | None = None
    ) -> ProcessRun:
        """Start a run set up by `config`, with the text of `sources` (by path) in place of its
        files' own.
        """
        config = dict(config or {})
        layer = self._sandbox.layer()
        job = Job(
            program=self._target.program(dict(sources or {})),
            config=config,
            training_loader=self.training_loader if config else None,
            seed=self._seed,
            layer=layer,
            objects=self._target.objects,
        )
        self._discard_old()
        run = self._zygote.start(job, limit_seconds=self._limit_seconds(config))
        self._layers[run.pid] = layer
        return run

    def observe(self) -> ProcessRun:
        """Start the first run, and keep what the program prepares before its first step for all
        later ones.
        """
        run = self.start()
        run.await_first_step()
        self._sandbox.keep_prepared(self._layers[run.pid])
        self._longest_start_seconds = run.startup_seconds
        return run

    def _limit_seconds(self, config: Config) -> float:
        if self._longest_start_seconds is None:
            return FIRST_START_LIMIT_SECONDS
        limit = max(LIMIT_FLOOR_SECONDS, LATER_STARTS_TAKE_AT_MOST * self._longest_start_seconds)
        return limit + (COMPILING_LIMIT_SECONDS if config.get("compile", "off") != "off" else 0.0)

    def _discard_old(self) -> None:
        """Throw away what runs that have ended wrote, so that a long search does not fill the
        disk.
        """
        for pid in [pid for pid in self._layers if self._zygote.exit_status(pid) is not None]:
            self._sandbox.discard(self._layers.pop(pid))
