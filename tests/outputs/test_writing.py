"""A folder that results cannot be written into is refused before anything is measured."""

import errno
import os
from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.outputs import EARLIER, write_outputs
from autotune.outputs.patch import Emission
from autotune.outputs.writing import ensure_room, room, write_whole
from autotune.workload.target import Target
from tests import builders


def test_a_faster_program_is_kept_where_a_later_search_finds_none(tmp_path: Path) -> None:
    target = Target(kind="script", path="/p/train.py", directory="/p")
    faster, emission = builders.search_result(), Emission(program="tuned = True\n", patch="a patch")
    written = {
        each.name: each.read_bytes() for each in write_outputs(faster, emission, target, tmp_path)
    }
    assert {"tuned.patch", "tuned.toml", "train_tuned.py"} <= written.keys()

    for _ in range(2):
        write_outputs(builders.failed_result(), Emission(), target, tmp_path)

    assert not (tmp_path / "tuned.patch").exists()
    kept = {each.name: each.read_bytes() for each in (tmp_path / EARLIER).iterdir()}
    assert kept == written


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    ensure_room(tmp_path / "new" / "out")
    assert list((tmp_path / "new" / "out").iterdir()) == []


def test_a_folder_that_stays_empty_goes_again(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for name in ("own", "new"):
        with pytest.raises(KeyboardInterrupt), room(tmp_path / name):
            raise KeyboardInterrupt
    with room(tmp_path / "used"):
        (tmp_path / "used" / "trials.log").touch()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["own", "used"]


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_in_its_place_is_said(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(UsageError, match=f"{out} cannot be written") as error:
        ensure_room(tmp_path / out)
    assert "--out" in error.value.advice
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_folder_that_takes_no_files_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "result.json").write_text("old")
    monkeypatch.setattr(Path, "write_bytes", refuse)
    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(UsageError, match=os.strerror(number)):
        ensure_room(tmp_path)
    with pytest.raises(UsageError, match=os.strerror(number)):
        write_whole(tmp_path / "result.json", "new")
    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]
    assert (tmp_path / "result.json").read_text() == "old"
