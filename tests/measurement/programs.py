"""What programs do to their files, in many ways; each returns what it finds when it reads back."""

# The functions of os are what is tried here.
# ruff: noqa: SIM115

import glob
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch


def furnish(project: Path) -> None:
    """The files that a project has before anything runs."""
    (project / "data" / "raw").mkdir(parents=True)
    for name in ("a", "b", "c"):
        (project / "data" / "raw" / name).write_text(f"raw {name}")
    (project / "notes.txt").write_text("first line\n")
    (project / "model.pt").write_bytes(b"the user's weights")
    (project / "old").mkdir()
    (project / "old" / "one").write_text("1")
    (project / "latest").symlink_to("old")
    np.save(project / "table.npy", np.arange(4))
    with sqlite3.connect(project / "runs.db") as database:
        database.execute("create table runs (name text)")
        database.execute("insert into runs values ('first')")
    database.close()


def contents(project: Path) -> dict[str, str]:
    """Every file of a project by its name: its kind, permissions and text."""
    found = {}
    for folder, folders, files in os.walk(project):
        for name in folders + files:
            path = os.path.join(folder, name)
            key = os.path.relpath(path, project)
            mode = f"{os.lstat(path).st_mode:o} "
            if os.path.islink(path):
                found[key] = mode + os.readlink(path)
            elif os.path.isfile(path):
                found[key] = mode + Path(path).read_bytes().hex()
            else:
                found[key] = mode
    return found


def append(project: Path) -> Any:
    with open(project / "notes.txt", "a") as file:
        file.write("second line\n")
    with (project / "notes.txt").open("r+") as file:
        file.write("FIRST")
    os.truncate(project / "data/raw/a", 2)
    return (project / "notes.txt").read_text(), os.path.getsize(project / "data/raw/a")


def overwrite(project: Path) -> Any:
    (project / "model.pt").write_bytes(b"new weights")
    handle = os.open(project / "log", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    os.write(handle, b"logged")
    os.close(handle)
    return (project / "model.pt").read_bytes(), (project / "log").read_text()


def make_exclusively(project: Path) -> Any:
    outcomes = []
    for make in (
        lambda: open(project / "notes.txt", "x"),
        lambda: os.mkdir(project / "data"),
        lambda: os.symlink("x", project / "latest"),
        lambda: open(project / "nowhere" / "file", "w"),
        lambda: open(project / "nothing", "r+"),
        lambda: os.remove(project / "nothing"),
        lambda: os.rmdir(project / "data"),
        lambda: os.rename(project / "notes.txt", project / "data"),
        lambda: os.stat(project / "notes.txt" / "below"),
    ):
        try:
            make().close()
        except OSError as error:
            outcomes.append((type(error).__name__, error.errno))
    return outcomes


def rename(project: Path) -> Any:
    os.rename(project / "notes.txt", project / "data" / "notes.txt")
    (project / "model.pt").replace(project / "data" / "raw" / "a")
    os.rename(project / "data" / "raw", project / "raw")
    shutil.move(project / "old" / "one", project / "raw" / "moved")
    return sorted(os.listdir(project / "raw")), (project / "raw" / "a").read_bytes()


def write_beside_and_replace(project: Path) -> Any:
    with tempfile.NamedTemporaryFile("w", dir=project, delete=False) as file:
        file.write("whole")
    os.replace(file.name, project / "notes.txt")
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write("from the temporary directory")
    os.rename(file.name, project / "data" / "raw" / "b")
    return (project / "notes.txt").read_text(), (project / "data/raw/b").read_text()


def remove(project: Path) -> Any:
    os.remove(project / "notes.txt")
    shutil.rmtree(project / "data")
    (project / "data").mkdir()
    (project / "data" / "fresh").write_text("fresh")
    (project / "old" / "one").unlink()
    (project / "old").rmdir()
    exists = [os.path.exists(project / name) for name in ("notes.txt", "data/raw", "old", "latest")]
    return exists, os.listdir(project / "data"), os.path.lexists(project / "latest")


def change_directory(project: Path) -> Any:
    os.chdir(project)
    os.makedirs("outputs/run-1")
    Path("notes.txt").write_text("relative")
    os.chdir("outputs/run-1")
    Path("log").write_text("in a new directory")
    Path("../../data/raw/c").write_text("from below")
    here = os.path.relpath(os.getcwd(), project)
    os.chdir("../..")
    return here, glob.glob("outputs/**/*", recursive=True), Path("data/raw/c").read_text()


def link(project: Path) -> Any:
    os.symlink("model.pt", project / "best.pt")
    (project / "best.pt").write_bytes(b"through a new link")
    (project / "latest" / "one").write_text("through an old link")
    os.link(project / "notes.txt", project / "notes-2.txt")
    with open(project / "notes-2.txt", "a") as file:
        file.write("both\n")
    (project / "latest").unlink()
    (project / "latest").symlink_to(project / "data" / "raw")
    listed = sorted(path.name for path in (project / "latest").iterdir())
    both = (project / "notes.txt").read_text() == (project / "notes-2.txt").read_text()
    return (project / "model.pt").read_bytes(), listed, both, os.readlink(project / "best.pt")


def change_attributes(project: Path) -> Any:
    os.chmod(project / "notes.txt", 0o600)
    os.utime(project / "notes.txt", (1000, 2000))
    (project / "data" / "raw" / "a").touch()
    return os.stat(project / "notes.txt").st_mtime, os.access(project / "notes.txt", os.R_OK)


def use_database(project: Path) -> Any:
    with sqlite3.connect(str(project / "runs.db")) as database:
        database.execute("insert into runs values ('second')")
    database.close()
    uri = f"file:{project / 'runs.db'}?mode=ro"
    database = sqlite3.connect(uri.replace(" ", "%20"), uri=True)
    rows = database.execute("select name from runs").fetchall()
    database.close()
    return rows


def save_arrays(project: Path) -> Any:
    np.save(project / "new.npy", np.ones(3))
    np.savez(project / "new.npz", a=np.zeros(2))
    table = np.lib.format.open_memmap(project / "table.npy", mode="r+")
    table[0] = 7
    table.flush()
    with np.load(project / "new.npz") as archive:
        return np.load(project / "table.npy").tolist(), archive["a"].tolist()


def save_weights(project: Path) -> Any:
    torch.save({"w": torch.zeros(3)}, str(project / "model.pt"))
    torch.save({"w": torch.ones(2)}, project / "new.pt")
    with open(project / "legacy.pt", "wb") as file:
        torch.save({"w": torch.ones(1)}, file)
    loaded = torch.load(project / "model.pt", mmap=True)["w"].tolist()
    (project / "model.pt").write_bytes(b"")  # two writes of one archive differ in their bytes
    (project / "new.pt").write_bytes(b"")
    (project / "legacy.pt").write_bytes(b"")
    return loaded


def unpack(project: Path) -> Any:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(project / "data", "unpacked")
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive:
        # Python 3.11 has filters since 3.11.4.
        archive.extractall(
            project, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
        )
    with zipfile.ZipFile(project / "new.zip", "w") as archive:
        archive.writestr("inner/file", "zipped")
    with zipfile.ZipFile(project / "new.zip") as archive:
        archive.extractall(project / "unzipped")
    (project / "new.zip").unlink()  # it has the time in it
    shutil.copytree(project / "data", project / "copied")
    return sorted(os.listdir(project / "unpacked" / "raw"))


PROGRAMS: dict[str, Callable[[Path], Any]] = {
    program.__name__: program
    for program in (
        append,
        overwrite,
        make_exclusively,
        rename,
        write_beside_and_replace,
        remove,
        change_directory,
        link,
        change_attributes,
        use_database,
        save_arrays,
        save_weights,
        unpack,
    )
}
