"""A command line whose runs are made up: what `flow` gives is given by the test."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Answer

from autotune import flow
from autotune.cli.app import app
from autotune.listener import Listener
from autotune.outputs.document import write_document
from autotune.result import Result
from tests import builders


@dataclass
class MadeUpFlow:
    """Stands in for `profile` and `search` of flow, and keeps what they were called with."""

    result: Result | BaseException = field(default_factory=builders.search_result)
    target: str = ""
    arguments: tuple[str, ...] = ()
    options: flow.Options = field(default_factory=flow.Options)

    def run(
        self,
        path: Any,
        arguments: Sequence[str] = (),
        *,
        listener: Listener,
        options: flow.Options,
    ) -> Result:
        self.target, self.arguments, self.options = str(path), tuple(arguments), options
        listener.stage("profiling")
        if isinstance(self.result, BaseException):
            raise self.result
        listener.profiled(self.result.profile, self.result.diagnosis)
        if self.result.space is not None:
            listener.space(self.result.space)
        for trial in self.result.trials:
            listener.trial_begins(trial.number, trial.config, 30.0, None)
            listener.trial_ended(trial, trial)
        if options.out is not None:
            write_document(self.result, options.out / "result.json")
        return self.result


Run = Callable[..., Answer]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in an empty folder, as in a pipe."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*words: str) -> Answer:
        answer = CliRunner().invoke(app, list(words), prog_name="autotune")
        bug = answer.exception
        assert bug is None or isinstance(bug, SystemExit), repr(bug)
        return answer

    return run


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> MadeUpFlow:
    """The flow that `profile` and `search` run in a test."""
    stand_in = MadeUpFlow()
    monkeypatch.setattr(flow, "profile", stand_in.run)
    monkeypatch.setattr(flow, "search", stand_in.run)
    return stand_in
