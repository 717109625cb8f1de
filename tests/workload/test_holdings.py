"""What a dataset holds that processes cannot share is found, by the name that its author knows."""

import io
import sqlite3
import subprocess
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import torch

from autotune.workload.samples.delivery import Holding, say
from autotune.workload.samples.digests import digest_of
from autotune.workload.samples.holdings import holdings, position


def found(dataset: object) -> list[Holding]:
    return [holding for holding, _ in holdings(dataset)]


def test_nothing_is_found_in_plain_data() -> None:
    inner = SimpleNamespace(data=torch.ones(3), names=["a"], table={"a": 1}, size=3)
    assert found(SimpleNamespace(dataset=inner, transform=len)) == []


def test_locks_threads_and_connections_are_named_by_where_they_are() -> None:
    database = sqlite3.connect(":memory:")
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as unused:
        pool.submit(int).result()
        dataset = SimpleNamespace(
            lock=threading.RLock(),
            inner=SimpleNamespace(pools=[pool, unused]),
            stores={"main": database},
        )
        assert found(dataset) == [
            Holding(kind="lock", path="dataset.lock"),
            Holding(kind="connection", path="dataset.stores['main']"),
            Holding(kind="threads", path="dataset.inner.pools[0]"),
        ]
    database.close()


def test_an_archive_holds_an_open_file(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one", "1")
    with zipfile.ZipFile(path) as archive:
        assert Holding(kind="file", path="dataset.archive.fp") in found(
            SimpleNamespace(archive=archive)
        )


class Loading(list[str]):
    def __getitem__(self, index: object) -> str:
        raise FileNotFoundError(f"{index} was read")


class LoadingByName(dict[str, object]):
    def __getitem__(self, name: str) -> object:
        raise FileNotFoundError(f"{name} was read")


class Computed:
    @property
    def __dict__(self) -> dict[str, object]:  # type: ignore[override]
        raise RuntimeError("was asked")


def test_containers_that_load_what_they_are_asked_for_are_not_asked() -> None:
    lock = threading.Lock()
    dataset = SimpleNamespace(
        names=Loading(["a"] * 30), table=LoadingByName(lock=lock), computed=Computed()
    )
    assert found(dataset) == [Holding(kind="lock", path="dataset.table['lock']")]
    assert digest_of(dataset.names) == digest_of(dataset.names) is not None
    assert digest_of(dataset.table) is not None


def test_a_process_that_is_read_from_is_named_by_its_pipes() -> None:
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as process:
        assert found(SimpleNamespace(decoder=process)) == [
            Holding(kind="pipes", path="dataset.decoder")
        ]


def test_files_in_memory_closed_files_and_logs_are_nobodys_business(tmp_path: Path) -> None:
    with (tmp_path / "closed").open("wb") as closed:
        pass
    with (tmp_path / "log").open("a") as log:
        assert found(SimpleNamespace(memory=io.BytesIO(b"x"), closed=closed, log=log)) == []


def test_what_refers_to_itself_is_looked_at_once() -> None:
    dataset = SimpleNamespace()
    dataset.dataset = dataset
    assert found(dataset) == []


def test_the_position_is_the_one_that_processes_share(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with path.open("rb", buffering=0) as file:
        file.seek(4)
        assert position(file) == 4
    assert position(file) is None


def test_they_are_said_in_words() -> None:
    held = [
        Holding(kind="lock", path="dataset.lock"),
        Holding(kind="file", path="dataset.archive.fp"),
    ]
    assert say(held) == "a lock (`dataset.lock`) and an open file (`dataset.archive.fp`)"
