"""Overlays over directories that are not the project's: others', and those that hold the scratch
directory.
"""

import errno
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.errors import MeasurementError
from autotune.measurement.sandbox import (
    Layer,
    Sandbox,
    Way,
    directories_in_texts,
    enter,
    landlock,
    other_directories,
    overlay,
    protected,
    protected_directories,
)
from autotune.measurement.sandbox.attempt import held_by_others
from autotune.measurement.sandbox.named import entries
from tests.measurement.sandboxed import NOBODY, become_nobody, in_child, started

ORDINARY = "ordinary user"
IN_MEMORY = "in memory"


@pytest.fixture
def machine() -> Iterator[Path]:
    """A directory as it might lie below the root: others', but for what an ordinary user has."""
    with tempfile.TemporaryDirectory(prefix="machine") as name:
        top = Path(name).resolve()
        top.chmod(0o755)
        for folder in ("apps", "project", "tmp", "work"):
            (top / folder).mkdir()
            (top / folder / "file").write_text("before")
        yield top


def own(kind: str, layer: Layer, *owned: Path) -> Layer:
    """`layer` for this kind of run, whose user owns some paths."""
    if kind != ORDINARY:
        return replace(layer, in_memory=kind == IN_MEMORY)
    for path in (*owned, layer.root.parent, layer.root):
        os.chown(path, NOBODY, NOBODY)
    return replace(layer, user_namespace=True)


def inside(kind: str, layer: Layer, program: Callable[[], Any]) -> Callable[[], Any]:
    """`program`, run by that user above `layer`."""

    def run() -> Any:
        if kind == ORDINARY:
            become_nobody()
        enter(layer)
        return program()

    return run


def overlays(*arguments: Any, **options: Any) -> Sandbox:
    try:
        return Sandbox(*arguments, way=Way.OVERLAY, **options)
    except MeasurementError as error:
        pytest.skip(str(error))


KINDS = pytest.mark.parametrize(
    "kind",
    [
        "root",
        IN_MEMORY,
        pytest.param(
            ORDINARY, marks=pytest.mark.skipif(os.geteuid() != 0, reason="it becomes another user")
        ),
    ],
)


@KINDS
@pytest.mark.parametrize("project", ["apps", "work"])  # before and after the scratch directory
def test_a_scratch_directory_below_what_is_covered(machine: Path, project: str, kind: str) -> None:
    """Its store, and what was prepared, lie below an overlay of their own making."""
    home, away = machine / project, machine / "project"
    written = [home / "best.pt", home / "file", away / "file"]
    with overlays(
        [home], elsewhere=[machine], scratch_parent=machine / "tmp" / "scratch"
    ) as sandbox:
        machine.chmod(0o755)
        (machine / "tmp" / "scratch").chmod(0o755)
        owned = (home, home / "file", away, away / "file")

        def train() -> tuple[list[str], list[str]]:
            before = [file.read_text() for file in written if file.exists()]
            for file in written:
                file.write_text("after")
            return before, [file.read_text() for file in written]

        ready, go = os.pipe(), os.pipe()

        def prepare() -> None:
            (away / "cache").write_text("prepared")
            os.write(ready[1], b"!")
            os.read(go[0], 1)

        first = own(kind, sandbox.layer(), *owned)
        with started(inside(kind, first, prepare)) as (_, receive):
            assert os.read(ready[0], 1) == b"!"
            assert sandbox.keep_prepared(first)
            os.write(go[1], b"!")
            receive()
        for _ in range(2):
            second = own(kind, sandbox.layer(), *owned)
            before, after = in_child(inside(kind, second, train))
            assert (before, after) == (["before"] * 2, ["after"] * 3)
            third = own(kind, sandbox.layer(), *owned)
            assert in_child(inside(kind, third, (away / "cache").read_text)) == "prepared"
    assert [file.read_text() for file in written[1:]] == ["before"] * 2
    assert not written[0].exists() and not (away / "cache").exists()


@KINDS
def test_directories_of_other_users_are_covered(machine: Path, kind: str) -> None:
    free = machine / "apps"
    free.chmod(0o777)
    for named in (False, True):
        with overlays(
            [machine / "work"],
            named=[free] if named else [],
            elsewhere=[machine] if kind != ORDINARY else [free],
            scratch_parent=machine / "tmp" / "scratch",
        ) as sandbox:
            sandbox.scratch.parent.chmod(0o755)
            layer = own(kind, sandbox.layer(), machine / "work")

            def program() -> str:
                (free / "best.pt").write_text("after")
                return (free / "best.pt").read_text()

            assert in_child(inside(kind, layer, program)) == "after"
        assert not (free / "best.pt").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="it becomes another user")
def test_an_ordinary_user_s_own_directories_are_found(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "apps" / "shared" / "ann" / "runs").mkdir(parents=True)
    for owned in ("work", "apps/shared/ann", "apps/shared/ann/runs"):
        os.chown(machine / owned, NOBODY, NOBODY)
    monkeypatch.setattr(protected, "entries", as_the_root(machine))
    monkeypatch.setattr(protected, "mount_points", dict)
    monkeypatch.setattr(protected, "SHARED", ("/",))

    def found() -> set[Path]:
        become_nobody()
        return {each for each in other_directories() if each.is_relative_to(machine)}

    assert in_child(found) == {machine / "work", machine / "apps" / "shared" / "ann"}


def as_the_root(machine: Path) -> Callable[[Path, int], list[os.DirEntry[str]]]:
    """`entries` where that directory is the root of all."""

    def listed(directory: Path, most: int) -> list[os.DirEntry[str]]:
        return entries(machine if directory == Path("/") else directory, most)

    return listed


@pytest.mark.skipif(os.geteuid() != 0, reason="it becomes another user")
@pytest.mark.parametrize("owner", [(0, NOBODY), (NOBODY, 0)])
def test_what_an_ordinary_user_shares_with_others_is_not_left_to_an_overlay(
    machine: Path, owner: tuple[int, int]
) -> None:
    work = machine / "work"
    for path in (work, work / "file"):
        os.chown(path, NOBODY, NOBODY)
    (work / "shared").mkdir(mode=0o777)
    (work / "shared").chmod(0o777)

    def others() -> str:
        become_nobody()
        return held_by_others([str(work)])

    os.chown(work / "shared", NOBODY, NOBODY)
    assert in_child(others) == ""
    os.chown(work / "shared", *owner)
    assert in_child(others) == str(work / "shared")
    (work / "shared").chmod(0o755 if owner[0] == 0 else 0o555)
    assert in_child(others) == ""


def test_the_kernel_guards_what_texts_name(machine: Path) -> None:
    """Where files are redirected in Python, other programs are refused, not let through."""
    if not landlock.version():
        pytest.skip("the kernel has no Landlock")
    with Sandbox(
        [machine / "work"],
        named=[machine / "apps"],
        way=Way.REDIRECT,
        scratch_parent=machine / "scratch",
    ) as sandbox:
        layer = sandbox.layer()

        def program() -> str:
            enter(layer)
            (machine / "apps" / "file").write_text("redirected")
            command = ["sh", "-c", f"echo after > {machine}/apps/file"]
            assert subprocess.run(command, capture_output=True, check=False).returncode
            return (machine / "apps" / "file").read_text()

        assert in_child(program) == "redirected"
    assert (machine / "apps" / "file").read_text() == "before"


@pytest.mark.parametrize("kind", ["root", IN_MEMORY])
def test_a_server_s_socket_is_reached_through_an_overlay(machine: Path, kind: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(machine / "work" / "socket"))
        server.listen()
        with overlays([machine / "work"], scratch_parent=machine / "tmp" / "scratch") as sandbox:

            def program() -> None:
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(machine / "work" / "socket"))
                (machine / "work" / "file").write_text("after")

            in_child(inside(kind, own(kind, sandbox.layer()), program))
    assert (machine / "work" / "file").read_text() == "before"


def test_a_disk_below_a_directory_does_not_leave_that_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tops = [SimpleNamespace(path=f"/{name}", is_dir=lambda **_: True) for name in ("mnt", "net")]
    mounts = {"/": "ext4", "/mnt/disk": "xfs", "/mnt/disk/inner": "tmpfs", "/net/far": "nfs4"}
    monkeypatch.setattr(protected, "entries", lambda *_: tops)
    monkeypatch.setattr(protected, "mount_points", lambda: mounts)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert set(other_directories()) == {Path("/mnt"), Path("/mnt/disk"), Path("/mnt/disk/inner")}


@pytest.fixture
def best() -> Iterator[Path]:
    """A file right in `/tmp`, as checkpoints are that a program names in full."""
    with tempfile.NamedTemporaryFile(dir="/tmp", prefix="best", suffix=".pt") as file:
        Path(file.name).write_text("before")
        yield Path(file.name)


@pytest.mark.parametrize("named", ["text", "argument"])
def test_a_file_that_is_named_right_in_a_shared_directory_is_found(
    tmp_path: Path, best: Path, named: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"torch.save(model, '{best}')" if named == "text" else "")
    arguments = [f"--save={best}"] if named == "argument" else []
    assert best in directories_in_texts(script, arguments)
    assert Path("/tmp") not in protected_directories(script, arguments)


def changed_in_every_way(best: Path) -> list[str]:
    """What `best` reads after each of the ways to change a file."""
    found = []
    for change in (
        lambda: best.write_text("written"),
        lambda: subprocess.run(["sh", "-c", f"printf shell > {best}"], check=True),
        lambda: Path(f"{best}.new").write_text("moved") and os.replace(f"{best}.new", best),
        best.unlink,
        lambda: best.write_text("again"),
    ):
        change()
        found.append(best.read_text())
    return found


@KINDS
def test_a_file_right_in_a_shared_directory_is_changed_in_a_copy(
    machine: Path, best: Path, kind: str
) -> None:
    project = machine / "project"
    with overlays([project], named=[best], scratch_parent=machine / "tmp" / "scratch") as sandbox:
        (machine / "tmp" / "scratch").chmod(0o755)
        layer = own(kind, sandbox.layer(), project, project / "file", best)
        before = best.stat()
        with started(inside(kind, layer, lambda: changed_in_every_way(best))) as (_, receive):
            assert receive() == ["written", "shell", "moved", "", "again"]
        after = best.stat()
    assert best.read_text() == "before"
    assert (after.st_mtime_ns, after.st_mode) == (before.st_mtime_ns, before.st_mode)


def test_a_file_that_the_machine_has_mounted_is_neither_emptied_nor_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted, new = tmp_path / "mounted", tmp_path / "new"
    mounted.write_text("before")
    new.write_text("new")

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    for change in (
        lambda copies: overlay._removing(busy, copies)(mounted),
        lambda copies: overlay._moving(busy, copies)(new, mounted),
    ):
        mounted.write_text("before")
        with pytest.raises(OSError, match="busy"):
            change(())
        assert mounted.read_text() == "before"
        change((os.path.realpath(mounted),))
        assert mounted.read_text() == ("" if new.exists() else "new")


def test_a_large_file_right_in_a_shared_directory_can_only_be_read(
    machine: Path, best: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "MOST_COPIED_BYTES", 3)
    with overlays(
        [machine / "project"], named=[best], scratch_parent=machine / "tmp" / "scratch"
    ) as sandbox:

        def train() -> str:
            try:
                best.write_text("after")
            except OSError as error:
                return f"{best.read_text()} {error.strerror}"
            return "written"

        with started(inside("root", sandbox.layer(), train)) as (_, receive):
            assert receive() == "before Read-only file system"
    assert best.read_text() == "before"
