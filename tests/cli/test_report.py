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
