"""Settings are held to their promise before they are searched."""

from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import vetting
from autotune.measurement.vetting import Vetted
from autotune.outputs.patch import Emission
from autotune.trials.space import Space
from autotune.workload.target import OBJECTS, SCRIPT
from tests import builders

REFUSED = next(edit for edit in builders.edits() if edit.status == "refused")
SPACE = Space(choices={"micro_batches": (1, 2, 4)}, own={"micro_batches": 1}, skipped=())


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The rehearsals that were run; all of them find that parts add up."""
    runs: list[Any] = []

    def rehearse(start: Any, seen: Any, values: tuple[int, ...]) -> Vetted:
        runs.append(values)
        return Vetted(values=values)

    monkeypatch.setattr(vetting, "vet_micro_batches", rehearse)
    return runs


def vetted(monkeypatch: pytest.MonkeyPatch, kind: str, emission: Emission) -> Space:
    context: Any = SimpleNamespace(
        target=SimpleNamespace(kind=kind),
        deadline=float("inf"),
        listener=SimpleNamespace(stage=lambda _: None),
        bench=SimpleNamespace(start=lambda _: None),
    )
    monkeypatch.setattr(vetting, "emit", lambda *_: emission)
    return vetting.vet(context, builders.profile(), SPACE)


def test_a_loop_that_the_patch_cannot_divide_is_not_divided_at_run_time_either(
    monkeypatch: pytest.MonkeyPatch, rehearsed: list[Any]
) -> None:
    space = vetted(monkeypatch, SCRIPT, Emission(edits=(REFUSED,)))
    assert "micro_batches" not in space.choices
    assert REFUSED.reason in space.skipped[-1].reason
    assert not rehearsed


def test_one_that_it_can_divide_is_rehearsed(
    monkeypatch: pytest.MonkeyPatch, rehearsed: list[Any]
) -> None:
    assert vetted(monkeypatch, SCRIPT, Emission()).choices == SPACE.choices
    assert rehearsed == [(1, 2, 4)]


def test_objects_have_no_source_and_a_loop_of_ours(
    monkeypatch: pytest.MonkeyPatch, rehearsed: list[Any]
) -> None:
    assert vetted(monkeypatch, OBJECTS, Emission(edits=(REFUSED,))).choices == SPACE.choices
    assert rehearsed
