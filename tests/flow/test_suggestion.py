"""What a line of the program's own may mend is told with a profile, where it is known."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.diagnosis import diagnose
from autotune.flow import suggestion
from autotune.flow.suggestion import by_hand
from autotune.outputs.patch import Emission
from autotune.outputs.report import render
from autotune.source.edits import EditOutcome
from tests import builders

context: Any = SimpleNamespace(target=SimpleNamespace(kind="script"))


@pytest.fixture(autouse=True)
def refused(monkeypatch: pytest.MonkeyPatch) -> list[EditOutcome]:
    """What the source forbids; nothing by itself."""
    found: list[EditOutcome] = []
    monkeypatch.setattr(suggestion, "emit", lambda *_: Emission(edits=tuple(found)))
    return found


def said(*, loader: Any = None, **changes: Any) -> str:
    seen = builders.seen()
    seen = replace(
        seen, loader=replace(seen.loader, **loader or {}), threads=changes.pop("threads", 2)
    )
    profile = builders.profile(seen=seen, **changes)
    return by_hand(context, profile, diagnose(profile)[0])


def test_a_loader_without_workers_is_to_have_as_many_as_there_are_cores() -> None:
    told = said()
    assert told.startswith("To try by hand: num_workers=2 in its DataLoader (photos.py:63).")
    profile = builders.profile()
    result = builders.profile_result(profile=profile, diagnosis=diagnose(profile))
    assert "num_workers=2 in its DataLoader" in render(replace(result, by_hand=told))


@pytest.mark.parametrize("forbidden", [True, False])
def test_what_the_source_forbids_is_not_told(refused: list[EditOutcome], forbidden: bool) -> None:
    edit = EditOutcome(knob="num_workers", edit="", status="refused", forbidden=forbidden)
    refused.append(edit)
    assert bool(said()) is not forbidden


@pytest.mark.parametrize("loader", [{"iterable": True}, {"threaded": True}, {"num_workers": 2}])
def test_no_workers_are_told_of_where_they_may_deliver_others(loader: dict[str, Any]) -> None:
    assert said(loader=loader) == ""


def test_a_short_wait_is_not_worth_a_worker() -> None:
    assert said(step_seconds=0.0007) == ""


def test_threads_beyond_the_cores_come_first() -> None:
    told = said(threads=8, probes={"one_thread": 4.0})
    assert "torch.set_num_threads(2)" in told
