"""A folder with files of someone else's is no folder for results."""

from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.outputs import write_outputs
from autotune.outputs.others import refuse_others
from autotune.outputs.patch import Emission
from autotune.workload.program.target import Target
from tests import builders

PROGRAM = "train_tuned.py"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("result.json", '{"accuracy": 0.9}'),
        ("report.html", "<h1>My experiments</h1>"),
        ("tuned.toml", "lr = 0.1"),
        ("tuned.patch", "--- a/train.py"),
        (PROGRAM, "print('mine')"),
        ("study.journal", "Dear diary"),
    ],
)
def test_what_is_none_of_autotune_s_is_not_written_over(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=f"{name} is there already") as refused:
        refuse_others(tmp_path, PROGRAM)
    assert "--out" in refused.value.advice
    assert (tmp_path / name).read_text() == text


def test_a_folder_that_is_not_there_or_has_other_files_is_one(tmp_path: Path) -> None:
    refuse_others(tmp_path / "new", PROGRAM)
    (tmp_path / "best.pt").write_text("weights")
    refuse_others(tmp_path, PROGRAM)


def test_what_an_earlier_search_has_left_is_autotune_s(tmp_path: Path) -> None:
    target = Target(kind="script", path="/p/train.py", directory="/p")
    emission = Emission(program="tuned = True\n", patch="a patch")
    written = write_outputs(builders.search_result(), emission, target, tmp_path)
    assert len(written) == 5
    (tmp_path / "study.journal").write_text('{"op_code":0,"worker_id":"1"}\n')
    refuse_others(tmp_path, PROGRAM)
    (tmp_path / "result.json").unlink()  # interrupted while it wrote
    refuse_others(tmp_path, PROGRAM)
    (tmp_path / "tuned.toml").unlink()
    with pytest.raises(UsageError, match=r"tuned\.patch is there already"):
        refuse_others(tmp_path, PROGRAM)
