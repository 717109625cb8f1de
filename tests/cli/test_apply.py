import shutil
from pathlib import Path

import pytest

from autotune.workload.program.target import RECIPE
from tests.cli.conftest import Run
from tests.outputs.test_apply import AFTER, BEFORE, searched


def test_the_changed_file_is_named_and_how_to_take_it_back(run: Run, tmp_path: Path) -> None:
    searched(tmp_path, {"train.py": (BEFORE, AFTER)})

    answer = run("apply", "out")

    assert answer.exit_code == 0
    assert answer.stdout.splitlines() == [
        "Changed train.py",
        "To take it back:",
        "  autotune apply out --reverse",
    ]
    assert run("apply", "out").stdout.startswith("Nothing to do")
    assert run("apply", "out", "--reverse").stdout == "Restored train.py\n"
    assert (tmp_path / "train.py").read_text() == BEFORE


def test_a_changed_source_is_refused(run: Run, tmp_path: Path) -> None:
    searched(tmp_path, {"train.py": (BEFORE, AFTER)})
    (tmp_path / "train.py").write_text(BEFORE + "# mine\n")

    answer = run("apply", "out")

    assert answer.exit_code == 2
    assert "has changed since it was searched" in answer.stderr
    assert "autotune search" in answer.stderr
    assert (tmp_path / "train.py").read_text() == BEFORE + "# mine\n"


def test_a_program_that_lies_elsewhere_is_not_changed_from_here(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched(tmp_path / "there", {"train.py": (BEFORE, AFTER)})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    answer = run("apply", "../there/out")

    assert answer.exit_code == 2
    assert "there, not here" in answer.stderr
    assert f"cd {tmp_path / 'there'}" in answer.stderr.replace("\n  ", "")
    assert (tmp_path / "there" / "train.py").read_text() == BEFORE


def test_a_result_of_another_machine_names_what_takes_its_patch_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched(tmp_path / "gone", {"train.py": (BEFORE, AFTER)})
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "gone" / "out").rename(here / "out")
    shutil.rmtree(tmp_path / "gone")
    monkeypatch.chdir(here)
    answer = run("apply", "out")
    assert answer.exit_code == 2
    assert f"git apply {here}/out/tuned.patch" in answer.stderr.replace("\n  ", "")


def test_of_a_recipe_a_new_file_is_written_and_no_source_changed(run: Run, tmp_path: Path) -> None:
    searched(tmp_path, {"recipe_tuned.py": (None, AFTER)}, kind=RECIPE)

    assert run("apply", "out").stdout.startswith("Written recipe_tuned.py\n")
    assert run("apply", "out").stdout == "Nothing to do: the tuned program is there already.\n"
    assert run("apply", "out", "--reverse").stdout == "Removed recipe_tuned.py\n"
    assert run("apply", "out", "-R").stdout == "Nothing to do: the tuned program is not there.\n"
