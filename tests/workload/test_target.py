"""Which files are a project's."""

from pathlib import Path

import pytest

from autotune.workload.program.target import load_target

TOPS = {
    "what is under version control": ((".git", "proj/pyproject.toml"), "."),
    "else what builds a package": (("proj/pyproject.toml",), "proj"),
    "the nearest such": (("setup.py", "proj/setup.cfg"), "proj"),
    "else the program's own folder": ((), "proj/scripts"),
}


@pytest.mark.parametrize(("marks", "top"), TOPS.values(), ids=TOPS)
def test_a_project_is(marks: tuple[str, ...], top: str, tmp_path: Path) -> None:
    script = tmp_path / "proj" / "scripts" / "train.py"
    script.parent.mkdir(parents=True)
    script.write_text("import torch\n")
    for mark in marks:
        (tmp_path / mark).touch()
    beside = tmp_path / "proj" / "src" / "model.py"
    beside.parent.mkdir()
    beside.write_text("weights = 1\n")
    target = load_target(script)
    assert Path(target.root) == tmp_path / top
    assert (str(beside) in target.texts([str(beside)])) == (top != "proj/scripts")
