"""Whatever a program does to its files, it finds what it wrote, and the files are as they were."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.measurement.sandbox import (
    Layer,
    Sandbox,
    Way,
    enter,
    entry,
    environment,
    quiet_environment,
)
from autotune.measurement.sandbox.namespace import enter_own_namespace, mount
from tests.measurement.programs import PROGRAMS, contents, furnish
from tests.measurement.sandboxed import VARIANTS, Arena, arena, become_nobody, in_child
from tests.trees import tree_hash

WAYS = ["overlay", "overlay of an ordinary user", "redirect"]
OVERLAYS = [name for name in VARIANTS if name.startswith("overlay")]


@pytest.fixture(scope="module", params=list(VARIANTS))
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    with arena(request.param) as built:
        furnish(built.project)
        yield built


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[Arena]:
    with arena(request.param) as built:
        furnish(built.project)
        yield built


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay_place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    with arena(request.param) as built:
        furnish(built.project)
        yield built


@pytest.fixture(scope="module")
def redirect_place() -> Iterator[Arena]:
    with arena("redirect") as built:
        furnish(built.project)
        yield built


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_program_finds_what_it_would_find_unprotected_and_changes_nothing(
    way: Arena, name: str
) -> None:
    program, project = PROGRAMS[name], way.project
    with tempfile.TemporaryDirectory() as folder:
        twin = Path(folder).resolve() / "project"
        shutil.copytree(project, twin, symlinks=True)
        expected = in_child(lambda: (program(twin), contents(twin)))
    before = tree_hash([project])
    found = way.run(lambda: (program(project), contents(project)))
    assert _without_paths(found) == _without_paths(expected)
    assert tree_hash([project]) == before


def _without_paths(outcome: tuple[object, dict[str, str]]) -> tuple[object, dict[str, str]]:
    """Absolute links lead into the one project or the other."""
    result, files = outcome
    return result, {name: text for name, text in files.items() if "/project" not in text}


def test_child_programs_write_to_the_overlay_too(overlay_place: Arena) -> None:
    project = overlay_place.project
    before = tree_hash([project])

    def program() -> tuple[str, str]:
        os.chdir(project)
        script = "echo x > made; echo more >> notes.txt; rm model.pt; mv data moved; cat notes.txt"
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
        return done.stdout, (project / "made").read_text()

    assert overlay_place.run(program) == ("first line\nmore\n", "x\n")
    assert tree_hash([project]) == before


def test_child_programs_of_a_redirected_run_are_refused_by_the_kernel(
    redirect_place: Arena,
) -> None:
    if not redirect_place.layer().kernel_guard:
        pytest.skip("this kernel has no Landlock")
    project = redirect_place.project
    before = tree_hash([project])

    def program() -> list[int]:
        os.chdir(project)
        scripts = ("echo x > made", "echo x > notes.txt", "echo x >> notes.txt", "rm model.pt")
        scripts += ("mv notes.txt other", "mkdir folder", "cat notes.txt", "echo x > /dev/null")
        return [
            subprocess.run(["/bin/sh", "-c", s], capture_output=True, check=False).returncode
            for s in scripts
        ]

    codes = redirect_place.run(program)
    assert [code == 0 for code in codes] == [False] * 6 + [True] * 2
    assert tree_hash([project]) == before


def test_a_write_that_cannot_be_redirected_is_refused_beforehand() -> None:
    with arena("redirect without kernel guard") as place:
        furnish(place.project)
        before = tree_hash([place.project])
        assert place.run(lambda: _refusals(place.project)) == ["notes.txt"] * 4
        assert tree_hash([place.project]) == before


def _refusals(project: Path) -> list[str]:
    import io
    import posix

    refused = []
    for change in (
        lambda path: io.FileIO(path, "w"),
        lambda path: posix.open(path, os.O_RDWR),
        posix.unlink,
        lambda path: posix.rename(path, path.with_name("other")),
    ):
        try:
            change(project / "notes.txt")
        except PermissionError as error:
            refused.append(Path(error.filename).name)
    return refused


def test_what_a_killed_run_had_written_is_nowhere_to_be_seen(place: Arena) -> None:
    project, layer = place.project, place.layer()
    before, mounts = tree_hash([project]), Path("/proc/self/mountinfo").read_text()
    read_end, write_end = os.pipe()

    def program() -> None:
        (project / "notes.txt").write_text("half")
        shutil.rmtree(project / "data")
        os.write(write_end, b"!")
        signal.pause()

    with place.started(program, layer) as (child, _):
        assert os.read(read_end, 1) == b"!"
        os.kill(child, signal.SIGKILL)
    os.close(read_end)
    os.close(write_end)
    assert tree_hash([project]) == before
    assert Path("/proc/self/mountinfo").read_text() == mounts
    place.sandbox.discard(layer)
    assert not layer.root.exists()


def test_runs_do_not_see_each_other(place: Arena) -> None:
    project = place.project
    place.run(lambda: (project / "notes.txt").write_text("the first run's"))
    assert place.run((project / "notes.txt").read_text) == "first line\n"


def test_a_process_forked_by_the_run_shares_its_files(place: Arena) -> None:
    project = place.project

    def program() -> list[str]:
        (project / "notes.txt").unlink()
        in_child(lambda: (project / "worker").write_text("w") and (project / "old/one").unlink())
        return sorted(contents(project))

    found = place.run(program)
    assert "worker" in found
    assert "notes.txt" not in found
    assert "old/one" not in found


def test_directories_that_are_kept_stay_real_inside_protected_ones() -> None:
    with tempfile.TemporaryDirectory() as name:
        project = Path(name).resolve()
        (project / "out").mkdir()
        for kind in Way:
            with Sandbox([project], kept=[project / "out"], way=kind) as sandbox:
                layer = sandbox.layer()

                def program(kind: Way = kind, layer: Layer = layer) -> None:
                    enter(layer)
                    (project / "out" / kind).write_text("kept")
                    (project / kind).write_text("thrown away")

                in_child(program)
        assert sorted(path.name for path in project.rglob("*")) == ["out", "overlay", "redirect"]


def test_temporary_files_and_shared_memory_stay_usable(place: Arena) -> None:
    def program() -> str:
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("text")
            Path("/dev/null").write_text("text")
            file.seek(0)
            shared = Path("/dev/shm", Path(file.name).name)
            shared.write_text("shared")
            shared.unlink()
            return file.read()

    assert place.run(program) == "text"


def test_the_machine_s_own_way_says_what_it_is() -> None:
    with Sandbox([]) as sandbox:
        assert sandbox.way in set(Way)
        assert sandbox.description.startswith("The program's files were protected by ")


def test_a_run_s_environment_keeps_caches_in_the_scratch_directory(tmp_path: Path) -> None:
    assert all(str(tmp_path) in value for value in environment(tmp_path).values())
    assert quiet_environment(tmp_path)["WANDB_MODE"] == "disabled"
    assert quiet_environment(tmp_path)["MPLBACKEND"] == "Agg"  # plots open no window


def test_a_tree_s_hash_tells_contents_names_and_permissions_apart(tmp_path: Path) -> None:
    file = tmp_path / "file"
    seen = set()
    for change in (
        lambda: file.write_text("1"),
        lambda: file.write_text("2"),
        lambda: file.chmod(0o600),
        lambda: file.rename(tmp_path / "other"),
        lambda: (tmp_path / "link").symlink_to("other"),
        (tmp_path / "folder").mkdir,
    ):
        change()
        seen.add(tree_hash([tmp_path]))
    os.mkfifo(tmp_path / "pipe")
    assert len(seen) == 6
    assert tree_hash([tmp_path]) in seen


def test_the_working_directory_is_protected_from_the_start(place: Arena) -> None:
    layer = place.layer()
    before = tree_hash([place.project])

    def program() -> str:
        os.chdir(place.project)
        if place.as_nobody:
            become_nobody()
        enter(layer)
        Path("made").write_text("here")
        return (place.project / "made").read_text()

    assert in_child(program) == "here"
    place.sandbox.discard(layer)
    assert tree_hash([place.project]) == before


def test_another_disk_below_a_protected_directory_is_protected_too() -> None:
    with arena("overlay") as place:
        disk = place.project / "disk"
        disk.mkdir()
        layer = place.layer()

        def machine() -> tuple[str, list[str]]:
            enter_own_namespace(user=False)
            mount("disk", str(disk), kind="tmpfs")
            (disk / "file").write_text("real")
            seen = in_child(lambda: (enter(layer), _overwrite(disk / "file"))[1])
            return seen, [path.read_text() for path in disk.iterdir()]

        if os.geteuid() != 0:
            pytest.skip("only root can mount a disk")
        assert in_child(machine) == ("overwritten", ["real"])


def _overwrite(path: Path) -> str:
    path.write_text("overwritten")
    return path.read_text()


def test_a_socket_can_be_made_however_long_the_name_of_the_scratch_directory_is(
    place: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "LONGEST_DIRECTORY_BYTES", 0)
    layer = place.layer()

    def bind() -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{tempfile.gettempdir()}/listener")

    def in_worker() -> str:
        in_child(bind)
        return tempfile.gettempdir()

    assert len(place.run(in_worker, layer)) < 20
    assert os.listdir(layer.root / "tmp") == ["listener"]
    place.sandbox.discard(layer)


def test_temporary_files_that_a_run_leaves_behind_go_with_its_layer(place: Arena) -> None:
    layer = place.layer()
    left = Path(place.run(tempfile.mkdtemp, layer))
    assert left.is_relative_to(layer.root)
    place.sandbox.discard(layer)
    assert not layer.root.exists()
