"""A patch is handed out only where the patched program runs."""

from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import judging
from autotune.measurement.measurement import Failure
from autotune.measurement.process import RunEnded
from autotune.outputs.patch import Emission
from tests import builders

DONE = tuple(edit for edit in builders.edits() if edit.status == "done")
EMITTED = Emission(sources={"/train.py": "new"}, program="new", patch="+new", edits=DONE)


def tried_out(monkeypatch: pytest.MonkeyPatch, failure: Failure | None) -> tuple[Emission, bool]:
    """What becomes of a patch whose program runs, or ends with `failure`."""

    def window(*_: Any, **__: Any) -> None:
        if failure is not None:
            raise RunEnded(failure)

    run = SimpleNamespace(window=window, seen=builders.seen, kill=lambda: None)
    context: Any = SimpleNamespace(target=None, bench=SimpleNamespace(start=lambda **_: run))
    monkeypatch.setattr(judging, "emit", lambda *_: EMITTED)
    return judging._tried_out(context, {}, builders.profile())


def test_a_program_that_runs_with_its_patch_is_handed_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert tried_out(monkeypatch, None) == (EMITTED, True)


def test_a_patch_with_which_the_program_fails_is_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emission, whole = tried_out(monkeypatch, Failure(kind="crashed", reason="TypeError: no"))
    assert not whole and not emission.sources and not emission.patch
    assert [edit.status for edit in emission.edits] == ["refused"] * len(DONE)
    assert all("TypeError: no" in edit.reason for edit in emission.edits)


def test_a_program_that_is_soon_over_keeps_its_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried_out(monkeypatch, Failure(kind="ended", reason="3 steps")) == (EMITTED, False)
