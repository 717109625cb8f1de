"""On a device one thing is timed at a time, where others may want it too."""

import threading
from pathlib import Path

import pytest

from autotune.measurement import device_lock
from autotune.measurement.device_lock import DeviceLock


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(device_lock, "_FOLDER", tmp_path)
    return tmp_path


def test_a_second_one_waits_and_says_so() -> None:
    waiting, done = threading.Event(), threading.Event()
    first = DeviceLock("cpu", needed=True, waiting=lambda: None)
    second = DeviceLock("cpu", needed=True, waiting=waiting.set)

    def enter() -> None:
        with second.held():
            done.set()

    thread = threading.Thread(target=enter)
    with first.held():
        thread.start()
        assert waiting.wait(30)
        assert not done.is_set()
    thread.join(30)
    assert done.is_set()
    assert second.waited_seconds > 0


def test_who_is_alone_asks_nobody(folder: Path) -> None:
    with DeviceLock("cpu", needed=False, waiting=lambda: None).held():
        assert not list(folder.iterdir())


def test_each_gpu_has_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for visible in ("0", "1,2"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with DeviceLock("cuda", needed=True, waiting=lambda: None).held():
            pass
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["autotune-cuda-0.lock", "autotune-cuda-1.lock"]
