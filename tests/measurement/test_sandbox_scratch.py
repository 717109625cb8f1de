"""Scratch directories go away, whatever becomes of who made them."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from autotune.errors import MeasurementError
from autotune.measurement.sandbox import Sandbox, sandbox
from autotune.measurement.sandbox.prepared import remove_tree
from autotune.measurement.sandbox.scratch import open_scratch
from tests.measurement.sandboxed import started


def test_closing_removes_everything(tmp_path: Path) -> None:
    with Sandbox([], scratch_parent=tmp_path) as opened:
        opened.layer()
        assert list(tmp_path.iterdir()) == [opened.scratch]
    opened.close()
    assert not list(tmp_path.iterdir())


def test_the_next_search_removes_what_a_killed_one_left_and_spares_a_living_one(
    tmp_path: Path,
) -> None:
    ready, report = os.pipe()

    def search() -> None:
        open_scratch(tmp_path)
        os.write(report, b"!")
        signal.pause()

    with started(search):
        assert os.read(ready, 1) == b"!"
        (left,) = tmp_path.iterdir()
        living, lock = open_scratch(tmp_path)
        assert left.exists()
    other, other_lock = open_scratch(tmp_path)
    assert set(tmp_path.iterdir()) == {living, other}
    for handle in (ready, report, lock, other_lock):
        os.close(handle)


def test_trees_without_permissions_are_removed(tmp_path: Path) -> None:
    (tmp_path / "work" / "work").mkdir(parents=True)
    (tmp_path / "work" / "work" / "file").touch()
    (tmp_path / "work" / "work").chmod(0)
    (tmp_path / "work").chmod(0)
    remove_tree(tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_another_s_directory_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"autotune-{os.getuid()}").symlink_to("elsewhere")
    scratch, lock = open_scratch()
    assert not list((tmp_path / "elsewhere").iterdir())
    remove_tree(scratch)
    os.close(lock)


def test_a_machine_that_permits_neither_way_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "attempt", lambda layers: ["not permitted"] * len(layers))
    with pytest.raises(MeasurementError, match="not permitted") as raised:
        Sandbox([], scratch_parent=tmp_path)
    assert "copy of the project" in raised.value.advice
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("works_at", "says"),
    [(0, "by the kernel:"), (1, "kept in memory"), (-2, "Landlock"), (-1, "could not be caught")],
)
def test_the_description_says_how_far_the_protection_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works_at: int, says: str
) -> None:
    def attempt(layers: list[object]) -> list[str]:
        return ["no mounts here"] * (range(len(layers))[works_at]) + [""]

    monkeypatch.setattr(sandbox, "attempt", attempt)
    monkeypatch.setattr(sandbox.landlock, "version", lambda: 1)
    with Sandbox([], scratch_parent=tmp_path) as opened:
        assert says in opened.description
        assert ("no mounts here" in opened.description) == (works_at < 0)
        parts = "Not protected: /dev/shm, and of /tmp and /var what the program does not name."
        assert opened.description.endswith(parts) == (works_at >= 0), "README says which parts"


def test_the_working_directory_is_no_place_for_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # all others are full
    with pytest.raises(MeasurementError, match="No space left"):
        open_scratch()
    assert not list(tmp_path.iterdir())
