"""Programs run as Python itself would run them, from whatever text."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.workload.program.script import run_script
from autotune.workload.program.target import load_target


@pytest.fixture(autouse=True)
def _restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What running a program changes of this process."""
    main, finders, modules = sys.modules["__main__"], list(sys.meta_path), set(sys.modules)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules["__main__"], sys.meta_path[:] = main, finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def written(folder: Path, **texts: str) -> None:
    """Files below `folder`, by their paths with `__` for `/`."""
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_module_beside_the_script_runs_from_its_new_text(tmp_path: Path) -> None:
    written(tmp_path, train="import own_data\nprint(own_data.SIZE)\n", own_data="SIZE = 1\n")
    target = load_target(tmp_path / "train.py")
    changed = {str(tmp_path / "own_data.py"): "SIZE = 2\n"}
    run_script(target.program(changed))
    assert sys.modules["own_data"].SIZE == 2


def test_a_module_by_way_of_a_folder_above_runs_from_its_new_text_too(tmp_path: Path) -> None:
    start = "import sys\nsys.path.append('..')\nimport above.own_data\n"
    written(tmp_path, above__train=start, above__own_data="SIZE = 1\n")
    target = load_target(tmp_path / "above" / "train.py")
    target = replace(target, directory=str(tmp_path / "above"))
    run_script(target.program({str(tmp_path / "above" / "own_data.py"): "SIZE = 2\n"}))
    assert sys.modules["above.own_data"].SIZE == 2


def test_a_program_for_another_python_is_told_so_with_its_line(tmp_path: Path) -> None:
    written(tmp_path, old="x = x.cuda(async=True)\n")
    with pytest.raises(UsageError, match=r"old.py line 1 is not Python 3\.\d+: invalid") as error:
        load_target(tmp_path / "old.py")
    assert "x.cuda(async=True)" in error.value.message


RELATIVE = "from . import settings\nfrom .parts.data import NAME\nRESULT = settings.SIZE, NAME\n"
ABSOLUTE = "import own_package.settings\nRESULT = own_package.settings.SIZE, __package__\n"


def package(folder: Path, train: str) -> Path:
    """A package with a training program in it; the program's path."""
    written(
        folder,
        own_package__train=train,
        own_package__settings="SIZE = 3\n",
        own_package__parts__data="NAME = __name__\n",
    )
    (folder / "own_package" / "__init__.py").touch()
    (folder / "own_package" / "parts" / "__init__.py").touch()
    return folder / "own_package" / "train.py"


def test_a_program_in_a_package_runs_as_python_m_runs_it(tmp_path: Path) -> None:
    target = load_target(package(tmp_path, RELATIVE), ["--lr", "1"])
    assert target.module == "own_package.train"
    assert target.root == str(tmp_path)
    run_script(target.program())
    main = sys.modules["__main__"]
    assert main.RESULT == (3, "own_package.parts.data")
    assert (main.__name__, main.__package__) == ("__main__", "own_package")
    assert main.__spec__ is not None and main.__spec__.name == "own_package.train"
    assert sys.argv == [target.path, "--lr", "1"]
    assert sys.path[0] == str(tmp_path)


def test_a_program_that_imports_its_own_package_by_name_is_a_module_of_it(tmp_path: Path) -> None:
    run_script(load_target(package(tmp_path, ABSOLUTE)).program())
    assert sys.modules["__main__"].RESULT == (3, "own_package")


def test_a_module_beside_it_may_have_the_name_of_its_folder(tmp_path: Path) -> None:
    path = package(tmp_path, "from own_package import SIZE\nRESULT = SIZE, __package__\n")
    (path.parent / "own_package.py").write_text("SIZE = 4\n")
    target = load_target(path)
    assert not target.module
    run_script(target.program())
    assert sys.modules["__main__"].RESULT == (4, None)


def test_a_module_may_be_named_as_for_python_m(tmp_path: Path) -> None:
    path = package(tmp_path, RELATIVE)
    assert load_target("own_package.train").path == str(path)
    with pytest.raises(UsageError, match="does not exist"):
        load_target("own_package.other")


def test_what_is_named_as_a_module_runs_as_one(tmp_path: Path) -> None:
    path = package(tmp_path, "import beside\nRESULT = beside.SIZE\n")
    written(tmp_path, beside="SIZE = 7\n")
    path.rename(path.with_name("__main__.py"))
    target = load_target("own_package")
    assert target.module == "own_package.__main__"
    run_script(target.program())
    assert sys.modules["__main__"].RESULT == 7


def test_a_script_beside_an_init_file_stays_a_script(tmp_path: Path) -> None:
    target = load_target(package(tmp_path, "import settings\nRESULT = settings.SIZE\n"))
    assert target.module == ""
    run_script(target.program())
    assert sys.modules["__main__"].RESULT == 3
    assert os.path.dirname(target.path) == sys.path[0]


def test_a_module_outside_of_any_package_may_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, train="import beside\nRESULT = beside.SIZE\n", beside="SIZE = 7\n")
    monkeypatch.chdir(tmp_path)
    target = load_target("train")
    assert target.module == "train"
    run_script(target.program())
    assert sys.modules["__main__"].RESULT == 7
