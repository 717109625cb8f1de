"""What tests share: one warm process that runs are forked from, how often a property is tried, and
who has the processors.

Tests that need a device or a browser are skipped where there is none, saying so.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from autotune.measurement.processes.forks import Zygote
    from autotune.measurement.processes.process import ProcessRun

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
GONE_WITHIN_SECONDS = 10.0

# Threads that wait for work burn a processor otherwise, which other tests could use.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# The same examples in every run; `--hypothesis-profile wide` looks for others.
settings.register_profile("here", max_examples=15, deadline=None, derandomize=True)
settings.register_profile("wide", max_examples=400, deadline=None)
settings.load_profile("here")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    with _turn(fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH):
        return (yield)


@contextmanager
def _turn(kind: int) -> Iterator[None]:
    """Beside others that share (`fcntl.LOCK_SH`), or alone (`fcntl.LOCK_EX`); first come, first
    served.
    """
    here = Path(__file__)
    with (here.with_name("__init__.py")).open() as queue, here.open() as processors:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(processors, kind)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not has_cuda():
        pytest.skip("there is no CUDA device")
    if item.get_closest_marker("browser") and not any(map(shutil.which, BROWSERS)):
        pytest.skip(f"there is no browser: none of {', '.join(BROWSERS)}")


def has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Zygote"]:
    """The warm process: it takes as long to get warm as ten short runs, and serves all tests."""
    from autotune.measurement.processes.forks import Zygote
    from autotune.measurement.sandbox import environment, quiet_environment

    scratch = tmp_path_factory.mktemp("caches")
    with closing(Zygote({**environment(scratch), **quiet_environment(scratch)})) as warm:
        yield warm


@pytest.fixture
def lent_zygote(zygote: "Zygote", monkeypatch: pytest.MonkeyPatch) -> None:
    """Every workbench forks from the warm process of all tests, instead of warming its own."""
    monkeypatch.setattr("autotune.measurement.workbench.Zygote", lambda _: Lent(zygote))


@pytest.fixture
def brief(lent_zygote: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search begins with a profile of a second: for tests of what it says, not of its figures."""
    monkeypatch.setattr("autotune.flow.profiling.PROFILE_SECONDS", (1.0, 1.0))
    monkeypatch.setattr("autotune.flow.profiling.PROFILE_OF_LARGE", 0.0)
    monkeypatch.setattr("autotune.flow.context.WARM_SECONDS", (0.5, 0.5))
    monkeypatch.setattr("autotune.flow.through.THROUGH_SECONDS", (1.0, 1.0))


class Lent:
    """A warm process that outlives whoever has borrowed it; the borrower's runs do not."""

    def __init__(self, zygote: "Zygote") -> None:
        self._zygote = zygote
        self._runs: list[ProcessRun] = []
        self.call, self.exit_status = zygote.call, zygote.exit_status
        self.warm_up = zygote.warm_up

    def start(self, job: Any, *, limit_seconds: float) -> "ProcessRun":
        self._runs.append(self._zygote.start(job, limit_seconds=limit_seconds))
        return self._runs[-1]

    def close(self) -> None:
        ends = time.monotonic() + GONE_WITHIN_SECONDS
        for run in self._runs:
            run.kill()
        for run in self._runs:
            while self.exit_status(run.pid) is None:
                assert time.monotonic() < ends, f"run {run.pid} is not gone"
                time.sleep(0.01)
