from pathlib import Path

from autotune.outputs.report import render
from autotune.source.edits import Autocast, EditOutcome
from tests import builders
from tests.cli.conftest import MadeUpFlow, Run
from tests.injection.programs import PLAIN, TUNED, searched


def test_a_folder_without_a_result_is_refused(run: Run) -> None:
    answer = run("run", "nowhere")

    assert answer.exit_code == 2
    assert "nowhere/result.json does not exist" in answer.stderr


def test_a_folder_of_folders_with_results_names_them(run: Run, tmp_path: Path) -> None:
    searched(tmp_path / "autotune-out" / "train.py", PLAIN, TUNED)

    answer = run("run", "autotune-out")

    assert answer.exit_code == 2
    assert "Name one of them: autotune-out/out." in answer.stderr


def test_a_launcher_with_an_open_quote_is_said(run: Run, tmp_path: Path) -> None:
    out = searched(tmp_path / "train.py", PLAIN, TUNED)

    answer = run("run", str(out), "--with", "accelerate launch --config 'my.yaml")

    assert answer.exit_code == 2
    assert "cannot be taken apart: No closing quotation" in " ".join(answer.stderr.split())


def test_a_launcher_that_there_is_not_is_said(run: Run, tmp_path: Path) -> None:
    out = searched(tmp_path / "train.py", PLAIN, TUNED)

    answer = run("run", str(out), "--with", "no-such-launcher --fast")

    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert "no-such-launcher cannot be started: No such file or directory" in answer.stderr


def test_a_search_names_it_where_the_patch_is_without_some_setting(
    run: Run, made_up: MadeUpFlow
) -> None:
    whole = builders.search_result(edits=())
    made_up.result = whole
    assert "autotune run" not in run("search", "photos.py").stdout

    edit = EditOutcome(
        knob="precision",
        edit=Autocast(device_type="cpu", dtype="bfloat16"),
        status="refused",
        reason="the loop is in a library",
    )
    made_up.result = builders.search_result(edits=(edit,))
    lines = run("search", "photos.py").stdout.splitlines()
    assert lines[-2:] == [
        "Next: train with all the settings, the source untouched",
        "  autotune run autotune-out/photos",
    ]
    assert "autotune run" in render(made_up.result)
    assert "autotune run" not in render(whole)
