"""A patch is handed out only where the patched program runs."""

import math
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import emitting
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import RunEnded
from autotune.outputs.patch import Emission
from autotune.source.edits import EditOutcome
from tests import builders

CONFIG: Config = {"threads": 1, "num_workers": 4, "channels_last": True}
CRASH = Failure(kind="crashed", reason="TypeError: no")


def tried_out(
    monkeypatch: pytest.MonkeyPatch,
    failure: Failure | None,
    *,
    without: Collection[str] = (),
    config: Config = CONFIG,
    idle: Collection[str] = (),
    there: Collection[str] = (),
    deadline: float = math.inf,
) -> tuple[Emission, bool]:
    """What becomes of a patch of `config` whose program runs, or ends with `failure`: always, or
    unless one of `without` is left out.
    """

    def emit(_target: object, config: Config, _seen: object) -> Emission:
        done = tuple(
            EditOutcome(knob=name, edit="", status="already" if name in there else "done")
            for name in config
        )
        return Emission(sources={"/train.py": " ".join(config)}, patch="+new", edits=done)

    def start(*, sources: dict[str, str], compiles: bool) -> Any:
        assert compiles == ("compile" in sources["/train.py"])

        def window(*_: Any, **__: Any) -> None:
            has_all = set(without) <= set(sources["/train.py"].split())
            if failure is not None and has_all:
                raise RunEnded(failure)

        return SimpleNamespace(window=window, seen=builders.seen, kill=lambda: None)

    monkeypatch.setattr(emitting, "emit", emit)
    monkeypatch.setattr(emitting, "missed", lambda *_: list(idle))
    bench = SimpleNamespace(start=start)
    context: Any = SimpleNamespace(target=None, bench=bench, deadline=deadline)
    return emitting.tried_out(context, config, builders.seen())


def test_a_program_that_runs_with_its_patch_is_handed_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emission, whole = tried_out(monkeypatch, None)
    assert whole and emission.patch and not emission.refused


def test_a_patch_with_which_the_program_fails_is_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emission, whole = tried_out(monkeypatch, CRASH)
    assert not whole and not emission.sources and not emission.patch
    assert [edit.status for edit in emission.edits] == ["refused"] * len(CONFIG)
    assert all("TypeError: no" in edit.reason for edit in emission.edits)


def test_the_one_setting_that_makes_it_fail_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    emission, whole = tried_out(monkeypatch, CRASH, without=("num_workers",))
    assert not whole and emission.sources == {"/train.py": "threads channels_last"}
    assert [(edit.knob, edit.reason) for edit in emission.refused] == [
        ("num_workers", "the program failed with the patch: TypeError: no")
    ]


def test_a_program_that_is_soon_over_keeps_its_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    emission, whole = tried_out(monkeypatch, Failure(kind="ended", reason="3 steps"))
    assert emission.patch and not whole


def test_a_patch_that_compiles_is_given_the_time_that_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert tried_out(monkeypatch, None, config={"compile": "default", "threads": 1})[1]
    without = tried_out(monkeypatch, CRASH, without=["compile"], config={**CONFIG, "compile": "on"})
    assert "compile" not in without[0].sources["/train.py"]


def test_a_setting_that_needs_the_one_left_out_goes_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config: Config = {"threads": 1, "num_workers": 4, "persistent_workers": True}
    emission, _ = tried_out(monkeypatch, CRASH, without=("num_workers",), config=config)
    assert emission.sources == {"/train.py": "threads"}
    assert {edit.knob for edit in emission.refused} == {"num_workers", "persistent_workers"}


@pytest.mark.parametrize(("kind", "starts"), [("hung", 1), ("crashed", 1 + len(CONFIG))])
def test_a_patch_that_hangs_is_not_tried_again_setting_by_setting(
    monkeypatch: pytest.MonkeyPatch, kind: str, starts: int
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(
        emitting, "_run", lambda *given: begun.append(given) or Failure(kind=kind, reason="no")
    )
    emission, _ = tried_out(monkeypatch, None)
    assert not emission.patch and len(begun) == starts


def test_where_the_time_is_over_settings_are_not_tried_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emission, _ = tried_out(monkeypatch, CRASH, without=("num_workers",), deadline=0.0)
    assert not emission.patch


def test_what_is_written_and_not_seen_in_effect_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emission, whole = tried_out(monkeypatch, None, idle=["channels_last"])
    assert not whole and emission.sources == {"/train.py": "threads num_workers"}
    assert [(edit.knob, edit.reason) for edit in emission.refused] == [
        ("channels_last", "written into the source, it was not seen in effect")
    ]


def test_what_seems_to_be_there_and_is_not_seen_in_effect_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emission, whole = tried_out(monkeypatch, None, idle=["threads"], there=["threads"])
    assert emission.patch and not whole
    assert [edit.knob for edit in emission.refused] == ["threads"]
    assert "seems to say so already" in emission.refused[0].reason
    assert not tried_out(monkeypatch, None, there=["threads"])[0].refused
