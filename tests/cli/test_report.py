from pathlib import Path

import pytest

from autotune.outputs.document import write_document
from tests import builders
from tests.cli.conftest import Run


@pytest.mark.parametrize("named", ["out", "out/result.json"])
def test_the_page_is_written_again(run: Run, tmp_path: Path, named: str) -> None:
    write_document(builders.search_result(), tmp_path / "out" / "result.json")

    answer = run("report", named)

    assert (answer.exit_code, answer.stdout) == (0, "Written: out/report.html\n")
    assert "<html" in (tmp_path / "out" / "report.html").read_text()


def test_a_damaged_result_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"schema": 99}')

    answer = run("report", ".")

    assert answer.exit_code == 2
    assert "schema 99" in answer.stderr


@pytest.mark.parametrize("command", ["apply", "report", "run"])
def test_a_program_in_the_place_of_its_folder_is_told_its_folder(
    run: Run, tmp_path: Path, command: str
) -> None:
    (tmp_path / "train.py").touch()

    answer = run(command, "train.py")

    assert answer.exit_code == 2
    assert "train.py is a file." in answer.stderr
    assert "by default autotune-out/train." in answer.stderr


def test_a_file_that_a_search_wrote_stands_for_its_folder(run: Run, tmp_path: Path) -> None:
    write_document(builders.search_result(), tmp_path / "out" / "result.json")
    (tmp_path / "out" / "tuned.toml").touch()

    assert run("report", "out/tuned.toml").stdout == "Written: out/report.html\n"


def test_a_folder_that_there_is_not_is_no_file_though_it_has_a_dot(
    run: Run, tmp_path: Path
) -> None:
    write_document(builders.search_result(), tmp_path / "runs" / "result.json")

    for command in ("apply", "report", "run"):
        assert "runs/v1.3/result.json does not exist" in run(command, "runs/v1.3").stderr


def test_a_page_that_cannot_be_written_is_not_to_be_written_elsewhere_by_a_flag(
    run: Run, tmp_path: Path
) -> None:
    write_document(builders.search_result(), tmp_path / "out" / "result.json")
    (tmp_path / "out" / "report.html").mkdir()

    answer = run("report", "out")

    assert answer.exit_code == 2
    assert "out/report.html cannot be written" in answer.stderr
    assert "--out" not in answer.stderr and "copy its folder" in answer.stderr


def test_a_folder_without_a_result_names_those_in_its_default_folder(
    run: Run, tmp_path: Path
) -> None:
    for name in ("train", "train-2"):
        write_document(builders.search_result(), tmp_path / "autotune-out" / name / "result.json")

    answer = run("report", ".")

    assert answer.exit_code == 2
    assert "autotune-out/train, autotune-out/train-2." in " ".join(answer.stderr.split())
