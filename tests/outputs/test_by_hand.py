"""What a line of the program's own may mend is told with a profile, where it is known."""

from dataclasses import replace
from typing import Any

import pytest

from autotune.diagnosis import diagnose
from autotune.outputs.by_hand import by_hand
from autotune.outputs.report import render
from tests import builders


def said(*, loader: Any = None, **changes: Any) -> str:
    seen = builders.seen()
    seen = replace(
        seen, loader=replace(seen.loader, **loader or {}), threads=changes.pop("threads", 2)
    )
    profile = builders.profile(seen=seen, **changes)
    return by_hand(builders.profile_result(profile=profile, diagnosis=diagnose(profile)))


def test_a_loader_without_workers_is_to_have_as_many_as_there_are_cores() -> None:
    told = said()
    assert told.startswith("To try by hand: num_workers=2 in its DataLoader (photos.py:63).")
    profile = builders.profile()
    result = builders.profile_result(profile=profile, diagnosis=diagnose(profile))
    assert "num_workers=2 in its DataLoader" in render(result)


@pytest.mark.parametrize("loader", [{"iterable": True}, {"threaded": True}, {"num_workers": 2}])
def test_no_workers_are_told_of_where_they_may_deliver_others(loader: dict[str, Any]) -> None:
    assert said(loader=loader) == ""


def test_a_short_wait_is_not_worth_a_worker() -> None:
    assert said(step_seconds=0.0007) == ""


def test_threads_beyond_the_cores_come_first() -> None:
    told = said(threads=8, probes={"one_thread": 4.0})
    assert "torch.set_num_threads(2)" in told


def test_a_search_has_an_answer_instead() -> None:
    assert by_hand(builders.search_result()) == ""
