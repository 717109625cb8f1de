"""A folder that results cannot be written into, or that another run writes into, is refused before
anything is measured.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.outputs import room as module
from autotune.outputs.room import ensure_room, room
from autotune.outputs.writing import write_whole

OTHER = """
import sys
from pathlib import Path
from autotune.outputs.room import room

with room(Path(sys.argv[1])):
    print("in", flush=True)
    sys.stdin.read()
"""


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


@pytest.mark.parametrize(
    ("out", "said"), [("file", "is a file, not a folder"), ("file/below", "cannot be written")]
)
def test_a_file_in_its_place_is_said(tmp_path: Path, out: str, said: str) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(UsageError, match=f"{out} {said}") as error:
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
    with pytest.raises(UsageError, match=os.strerror(number)), room(tmp_path / "new"):
        pass
    with pytest.raises(UsageError, match=os.strerror(number)):
        write_whole(tmp_path / "result.json", "new")
    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]
    assert (tmp_path / "result.json").read_text() == "old"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that writes into the folder `out`."""
    command = [sys.executable, "-c", OTHER, str(tmp_path / "out")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "in\n"
        yield process
        process.kill()


def test_a_second_run_is_refused_and_told_of_the_first(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    with pytest.raises(UsageError) as refused, room(tmp_path / "out"):
        pass

    said = f"Process {other.pid} is writing into {tmp_path / 'out'} at this moment."
    assert refused.value.message == said
    assert "--out" in refused.value.advice
    assert list((tmp_path / "out").iterdir()) == []


def test_where_the_kernel_names_no_process_it_is_another(
    tmp_path: Path, other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOCKS", tmp_path / "missing")

    with pytest.raises(UsageError, match="Another process is writing"), room(tmp_path / "out"):
        pass


def test_a_run_that_was_killed_holds_no_folder(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    other.kill()
    other.wait()

    with room(tmp_path / "out"):
        (tmp_path / "out" / "result.json").touch()
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["result.json"]


def test_one_run_after_the_other_has_the_folder(tmp_path: Path) -> None:
    for _ in range(2):
        with room(tmp_path):
            pass
