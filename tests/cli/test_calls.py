import sys

import pytest

from autotune.cli.calls import run_shown
from autotune.listener import Listener
from autotune.profiling.profile import PROCESSORS_TAKEN, Doubt
from autotune.result import Result
from tests import builders


def searched(listener: Listener) -> Result:
    listener.stage("profiling")
    listener.space(builders.space())
    return builders.search_result()


def test_a_run_is_shown_on_stderr_with_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_shown(searched, progress=True, listener=None, budget_seconds=60)

    shown = capsys.readouterr()
    assert result == builders.search_result()
    assert shown.out == ""
    assert "Profiling\n" in shown.err
    assert "5 other settings; the result's space.skipped has" in shown.err, "it may have no page"
    assert shown.err.splitlines()[-1].startswith("2.12× faster")


def test_a_profile_is_shown_with_its_headline(capsys: pytest.CaptureFixture[str]) -> None:
    taken = Doubt(name=PROCESSORS_TAKEN, evidence="In 4 of 6 windows.", advice="")
    result = builders.profile_result(profile=builders.profile(doubts=(taken,)))

    run_shown(lambda _: result, progress=True, listener=None)

    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Measured without all the processors that it could have used")
    assert lines[-1] == builders.findings()[0].headline


@pytest.mark.parametrize("progress", [False, None])
def test_nothing_is_shown_in_a_script(
    capsys: pytest.CaptureFixture[str], progress: bool | None
) -> None:
    run_shown(searched, progress=progress, listener=None)

    assert capsys.readouterr().err == ""


def test_a_notebook_is_shown_how_it_goes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", sys)

    run_shown(searched, progress=None, listener=None)

    assert "Profiling" in capsys.readouterr().err


def test_who_is_told_takes_the_place_of_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []

    class Told(Listener):
        def stage(self, name: str) -> None:
            told.append(name)

    run_shown(searched, progress=True, listener=Told())

    assert told == ["profiling"]
    assert capsys.readouterr().err == ""
