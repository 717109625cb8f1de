"""On a device one thing is timed at a time, where others may want it too."""

import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.measurement.processes import device_lock
from autotune.measurement.processes.device_lock import DeviceLock
from autotune.measurement.sandbox import quiet_environment


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(device_lock, "_FOLDER", tmp_path)
    return tmp_path


def test_a_second_one_waits_and_says_so() -> None:
    waiting, done = threading.Event(), threading.Event()
    first = DeviceLock("cpu", waiting=lambda: None)
    second = DeviceLock("cpu", waiting=waiting.set)

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


def test_where_nothing_can_be_locked_it_is_had_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_lock, "_FOLDER", folder / "missing")
    with DeviceLock("cpu", waiting=lambda: None).held():
        assert not list(folder.iterdir())


def test_a_program_that_searches_itself_does_not_wait_for_its_own_measurement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outer = DeviceLock("cpu", waiting=lambda: None)
    inner = DeviceLock("cpu", waiting=lambda: pytest.fail("it would wait for ever"))
    with outer.held():
        for name, value in quiet_environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        with inner.held():
            pass


def test_others_may_have_it_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        with DeviceLock("cpu", waiting=lambda: None).held():
            (lock,) = folder.iterdir()
            assert lock.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def locks(folder: Path, uuid: str = "") -> list[str]:
    """The locks that there are after one that a GPU was held by."""
    lock = DeviceLock("cuda", waiting=lambda: None)
    lock.follow(uuid)
    with lock.held():
        return sorted(path.name for path in folder.iterdir())


def test_each_gpu_has_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for visible in ("0", "1,2"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        names = locks(folder)
    assert names == ["autotune-cuda-0.lock", "autotune-cuda-1.lock"]


def test_a_gpu_has_one_by_whatever_it_is_called(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ["GPU-9e0a-11", "GPU-5c1b-22"]

    class Refused(Exception):
        pass

    def known(uuid: str) -> str:
        if uuid not in ids:
            raise Refused
        return uuid

    driver = SimpleNamespace(
        NVMLError=Refused,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(ids),
        nvmlDeviceGetHandleByIndex=ids.__getitem__,
        nvmlDeviceGetHandleByUUID=known,
        nvmlDeviceGetUUID=str,
        nvmlDeviceGetMigMode=lambda handle: [0, 0],
    )
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    for visible in ("1", "GPU-5c1b-22", "GPU-5c", "1,0"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert locks(folder) == ["autotune-cuda-GPU-5c1b-22.lock"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")  # the program says `cuda:1` itself
    both = [f"autotune-cuda-{each}.lock" for each in sorted(ids)]
    assert locks(folder, uuid="5c1b-22") == both


def test_a_gpu_that_was_not_found_beforehand_is_held_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for uuid in ("", "9e0a-11"):
        lock = DeviceLock("cpu", waiting=lambda: None)
        lock.follow(uuid)
        with lock.held():
            pass
    assert {path.name for path in folder.iterdir()} == {"autotune-cpu.lock", "autotune-cuda-0.lock"}


def test_who_trains_on_another_gpu_waits_for_whoever_is_profiled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that say `cuda:1` are profiled under the first GPU's lock."""
    monkeypatch.setattr(device_lock, "_called", lambda uuid: uuid or "first")
    waiting, done = threading.Event(), threading.Event()
    profiled = DeviceLock("cuda", waiting=lambda: None)
    tried = DeviceLock("cuda", waiting=waiting.set)
    tried.follow("second")

    def enter() -> None:
        with tried.held():
            done.set()

    thread = threading.Thread(target=enter)
    with profiled.held():
        thread.start()
        assert waiting.wait(30)
    thread.join(30)
    assert done.is_set()
    assert {each.name for each in folder.iterdir()} == {
        "autotune-cuda-first.lock",
        "autotune-cuda-second.lock",
    }
