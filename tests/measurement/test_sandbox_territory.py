"""Which directories are protected, and what is mounted where."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.measurement.sandbox import (
    directories_in_texts,
    named,
    other_directories,
    protected,
    protected_directories,
)
from autotune.measurement.sandbox.territory import Cover, Territory


@dataclass(frozen=True)
class Entry:
    """A directory as `os.scandir` gives it."""

    path: str

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return not follow_symlinks


HOME = Territory(protected=("/home/ann", "/tmp/project"), kept=("/home/ann/out", "/tmp"))


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        ("/home/ann", True),
        ("/home/ann/a/b", True),
        ("/home/anna", False),
        ("/home/ann/out/x", False),
        ("/tmp/x", False),
        ("/tmp/project/x", True),
        ("/", False),
    ],
)
def test_the_nearest_directory_decides_whether_a_path_is_protected(
    path: str, protected: bool
) -> None:
    assert HOME.protects(path) is protected


def test_protected_directories_in_one_another_need_one_overlay() -> None:
    territory = Territory(protected=("/a", "/a/b"), kept=())
    assert territory.plan(["/", "/proc"]) == (("/a", Cover.OVERLAY),)


def test_kept_directories_are_shown_again_and_protected_ones_in_them_covered_again() -> None:
    territory = Territory(protected=("/a", "/a/b/c"), kept=("/a/b", "/d"))
    assert territory.plan(["/"]) == (
        ("/a", Cover.OVERLAY),
        ("/a/b", Cover.REAL),
        ("/a/b/c", Cover.OVERLAY),
    )


def test_a_mount_below_a_protected_directory_gets_its_own_overlay(tmp_path: Path) -> None:
    disk, file = tmp_path / "disk", tmp_path / "file"
    disk.mkdir()
    file.touch()
    territory = Territory(protected=(str(tmp_path),), kept=())
    assert territory.plan(["/", str(disk), str(file)]) == (
        (str(tmp_path), Cover.OVERLAY),
        (str(disk), Cover.OVERLAY),
        (str(file), Cover.READ_ONLY),
    )


def test_system_directories_and_missing_ones_are_not_protected(tmp_path: Path) -> None:
    territory = Territory.of([Path("/dev/shm"), Path("/proc"), tmp_path, tmp_path / "no"], [])
    assert territory.protected == (str(tmp_path),)


def test_a_program_s_project_arguments_and_links_are_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {name: tmp_path / name for name in ("project", "cwd", "home", "data", "big", "out")}
    for folder in folders.values():
        folder.mkdir()
    (folders["project"] / "pyproject.toml").touch()
    (folders["project"] / "src").mkdir()
    (folders["project"] / "checkpoints").symlink_to(folders["big"])
    (folders["data"] / "train.csv").touch()
    monkeypatch.chdir(folders["cwd"])
    monkeypatch.setenv("HOME", str(folders["home"]))
    arguments = [f"--data={folders['data']}/train.csv", "--out", f"{folders['out']}/new/run"]
    arguments += ["--url", "https://a/b", "--lr", "1"]
    script = folders["project"] / "src" / "train.py"
    assert set(protected_directories(script, arguments)) == {*folders.values()} - {folders["out"]}
    assert directories_in_texts(script, arguments) == (folders["out"],)  # what is not there yet


def test_what_the_program_names_itself_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [tmp_path / name for name in ("project", "kept")]
    for folder in folders:
        folder.mkdir()
    script = folders[0] / "train.py"
    script.write_text(f"open('{folders[1]}/run/best.pt', 'w')\nurl = '/'\nother = '/tmp/x'\n")
    found = directories_in_texts(script)
    assert folders[1] in found
    assert Path("/tmp") not in found


@pytest.mark.parametrize(
    "code",
    [
        "Path('/tmp') / '{name}'",
        "os.path.join('/tmp', f'{name}', 'x')",
        "'/tmp/{name}/x'",
        "f'/tmp/{{kind}}{end}'",
    ],
)
def test_places_that_are_put_together_in_a_folder_of_all_are_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with tempfile.TemporaryDirectory(dir="/tmp", suffix="_put_together") as kept:
        script = tmp_path / "train.py"
        script.write_text(f"{code.format(name=os.path.basename(kept), end='_put_together')}\n")
        found = directories_in_texts(script)
        assert Path(kept) in found and Path("/tmp") not in found


def test_what_other_modules_settings_and_variables_name_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("module", "yaml", "shell", "variable", "argument", "library", "unnamed")
    folders = {name: tmp_path / name for name in names}
    for folder in folders.values():
        folder.mkdir()
    project = tmp_path / "project"
    (project / "lib").mkdir(parents=True)
    (project / "env" / "lib").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    (project / "train.py").write_text("import os\nout = os.environ['RUNS_DIRECTORY']\n")
    (project / "lib" / "paths.py").write_text(f"OUT = f'{folders['module']}/{{name}}/best.pt'\n")
    (project / "lib" / "run.yaml").write_text(f"out_dir: {folders['yaml']}/run\n")
    (project / "lib" / "run.sh").write_text(f"python train.py --out={folders['shell']}/a\n")
    (project / "env" / "pyvenv.cfg").touch()
    (project / "env" / "lib" / "x.py").write_text(f"'{folders['library']}'\n")
    settings = tmp_path / "settings.json"
    settings.write_text(f'{{"out": "{folders["argument"]}/b", "api": "/v1/x"}}')
    monkeypatch.chdir(project)
    monkeypatch.setenv("RUNS_DIRECTORY", str(folders["variable"]))
    monkeypatch.setenv("OTHER_DIRECTORY", str(folders["unnamed"]))
    found = directories_in_texts(project / "train.py", [f"--settings={settings}"])
    left_alone = {folders["library"], folders["unnamed"]}
    assert set(folders.values()) - set(found) == left_alone


def test_an_argument_below_nothing_that_exists_does_not_protect_the_whole_machine() -> None:
    for find in (protected_directories, directories_in_texts):
        assert Path("/") not in find(Path(__file__), ["/no such directory/file"])


@pytest.mark.parametrize(
    "text",
    [
        "open('../beside/best.pt')",
        "open('{beside}/my runs/best.pt')",
        "uri = 'file://{beside}/runs'",
        "open('~/../beside/best.pt')",
        "os.environ['runs_at']",
        "open('./../beside/best.pt')",
        "open('runs/../../beside/best.pt')",
        "open(f'{{ROOT}}/../beside/best.pt')",
    ],
)
def test_paths_that_lead_out_of_the_project_are_protected(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, project = tmp_path / "beside", tmp_path / "project"
    beside.mkdir()
    (project / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (project / "train.py").write_text(text.format(beside=beside) + "\n")
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("runs_at", "../beside")
    assert beside in directories_in_texts(project / "train.py")


def test_the_folder_above_as_an_argument_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert tmp_path in protected_directories(tmp_path / "project" / "train.py", ["--out", ".."])


@pytest.mark.parametrize("path", ["/..", "/./", "/tmp/../..", "/proc/../dev", "/tmp/../tmp/x"])
def test_no_spelling_of_the_machine_s_own_directories_protects_them(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(f"open('{path}')\n")
    found = {os.path.realpath(each) for each in directories_in_texts(tmp_path / "train.py")}
    assert not found & {"/", "/dev", "/proc", "/tmp"}


def test_a_script_of_no_repository_may_write_beside_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts, repository = tmp_path / "lone" / "src", tmp_path / "kept" / "repository"
    scripts.mkdir(parents=True)
    (repository / ".git").mkdir(parents=True)
    monkeypatch.chdir(scripts)
    assert scripts.parent in directories_in_texts(scripts / "train.py")
    monkeypatch.chdir(repository)
    assert repository.parent not in directories_in_texts(repository / "train.py")


def test_what_nothing_names_is_covered_where_that_is_possible(tmp_path: Path) -> None:
    file = tmp_path / "data" / "file"
    file.parent.mkdir()
    file.touch()
    data = str(file.parent)
    territory = Territory(
        protected=(f"{data}/project",), kept=(f"{data}/out",), elsewhere=(data, f"{data}/out")
    )
    assert territory.plan(["/", str(file)]) == (
        (data, Cover.ATTEMPT),
        (str(file), Cover.REAL),
        (f"{data}/out", Cover.REAL),
        (f"{data}/project", Cover.OVERLAY),
    )
    assert not territory.protects(f"{data}/x")


def test_the_directories_of_the_machine_are_its_own_and_not_the_system_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mounts = {"/": "ext4", "/proc": "proc", "/data": "xfs", "/far": "nfs4", "/data2/far": "nfs"}
    monkeypatch.setattr(protected, "mount_points", lambda: mounts)
    tops = [Entry(f"/{name}") for name in ("home", "usr", "tmp", "var", "data", "data2", "far")]
    monkeypatch.setattr(protected, "entries", lambda *_: tops)
    assert other_directories() == (Path("/home"), Path("/data"))


@pytest.mark.parametrize(
    "argument", ["-o{beside}/x", "dirs=[{beside}]", "--out=file://{beside}/x", "{beside},1"]
)
def test_a_folder_is_found_in_any_argument(argument: str, tmp_path: Path) -> None:
    beside, project = tmp_path / "beside", tmp_path / "project"
    beside.mkdir()
    project.mkdir()
    arguments = [argument.format(beside=beside)]
    script = project / "train.py"
    found = (*protected_directories(script, arguments), *directories_in_texts(script, arguments))
    assert beside in found


def test_what_settings_of_the_environment_alone_name_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "project" / ".env").write_text(f"OUT={tmp_path}/beside/runs\n")
    os.mkfifo(tmp_path / "project" / "pipe.txt")  # to read it would wait for ever
    assert tmp_path / "beside" in directories_in_texts(tmp_path / "project" / "train.py")


def test_a_list_of_samples_protects_the_directory_above_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, cases = tmp_path / "project", tmp_path / "data" / "cases"
    project.mkdir()
    for number in range(50):
        (cases / str(number) / "scans").mkdir(parents=True)
    lines = [f"{cases}/{number}/scans/flair.nii.gz,1" for number in range(50)]
    (project / "train.csv").write_text("\n".join(lines))
    monkeypatch.chdir(project)
    assert directories_in_texts(project / "train.py") == (tmp_path, cases)


def test_links_in_what_texts_name_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("runs", "big", "project"):
        (tmp_path / folder).mkdir()
    (tmp_path / "runs" / "latest").symlink_to(tmp_path / "big")
    (tmp_path / "project" / "train.py").write_text("open('../runs/latest/best.pt')\n")
    monkeypatch.chdir(tmp_path / "project")
    assert tmp_path / "big" in directories_in_texts(tmp_path / "project" / "train.py")


def test_a_text_that_is_none_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "key.txt").write_bytes(b"~a\0b/../c ../d\0 \xff://../")
    directories_in_texts(tmp_path / "train.py")


def test_data_is_read_after_all_that_may_say_where_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named, "MOST_TEXTS", 30)
    (tmp_path / "beside").mkdir()
    project = tmp_path / "project"
    (project / "labels").mkdir(parents=True)
    (project / "src" / "config").mkdir(parents=True)
    for number in range(100):
        (project / "labels" / f"{number}.txt").write_text("0 0.5 0.5 1 1\n")
    (project / "src" / "config" / "paths.py").write_text(f"OUT = '{tmp_path}/beside'\n")
    monkeypatch.chdir(project)
    assert tmp_path / "beside" in directories_in_texts(project / "train.py")


@pytest.mark.parametrize("argument", [f"--prompt=a/{'b' * 5000}", f"--json={'c' * 300}/d", "a/\0b"])
def test_an_argument_that_can_be_no_path_is_passed_over(argument: str, tmp_path: Path) -> None:
    for find in (protected_directories, directories_in_texts):
        find(tmp_path / "train.py", [argument])
