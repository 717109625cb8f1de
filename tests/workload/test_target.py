"""Which files are a project's."""

from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.workload.program import imported
from autotune.workload.program.imported import files_that_run
from autotune.workload.program.target import load_target

TOPS = {
    "what is under version control": ((".git", "proj/pyproject.toml"), "."),
    "else what builds a package": (("proj/pyproject.toml",), "proj"),
    "or what lists what it needs": (("proj/requirements.txt",), "proj"),
    "the nearest such": (("setup.py", "proj/setup.cfg"), "proj"),
    "else the program's own folder": ((), "proj/scripts"),
}


@pytest.mark.parametrize(("marks", "top"), TOPS.values(), ids=TOPS)
def test_a_project_is(marks: tuple[str, ...], top: str, tmp_path: Path) -> None:
    script = tmp_path / "proj" / "scripts" / "train.py"
    script.parent.mkdir(parents=True)
    script.write_text("import torch\n")
    for mark in marks:
        (tmp_path / mark).touch()
    beside = tmp_path / "proj" / "src" / "model.py"
    beside.parent.mkdir()
    beside.write_text("weights = 1\n")
    target = load_target(script)
    assert Path(target.root) == tmp_path / top
    assert (str(beside) in target.texts([str(beside)])) == (top != "proj/scripts")


@pytest.mark.parametrize(
    ("started", "text", "top"),
    [
        ("proj", "sys.path.append('..')", "proj"),
        ("proj", "", "proj/scripts"),
        (".", "sys.path.append('..')", "."),
        ("proj/other", "sys.path.append('..')", "proj/scripts"),
    ],
)
def test_a_program_that_is_started_above_may_import_from_there(
    started: str, text: str, top: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "proj" / "scripts" / "train.py"
    script.parent.mkdir(parents=True)
    (tmp_path / "proj" / "other").mkdir()
    script.write_text(f"import sys\n{text}\n")
    monkeypatch.chdir(tmp_path / started)
    assert Path(load_target(script).root) == (tmp_path / top).resolve()


def test_what_pip_wrote_to_launch_a_package_is_that_one_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "project" / "package_to_launch"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(package.parent))
    launcher = tmp_path / "bin" / "gpt"
    launcher.parent.mkdir()
    launcher.write_text(
        "#!/usr/bin/python\n# -*- coding: utf-8 -*-\nimport re\nimport sys\n"
        "from package_to_launch.main import main\nif __name__ == '__main__':\n"
        "    sys.exit(main())\n"
    )
    assert Path(load_target(launcher).root) == package.parent


def test_a_module_is_found_where_python_would_import_it_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "project" / "src" / "far_package_of_mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('it is not to be imported')\n")
    (package / "train.py").write_text("print('training')\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.syspath_prepend(str(package.parent))
    target = load_target("far_package_of_mine.train")
    assert target.path == str(package / "train.py")
    assert target.module == "far_package_of_mine.train"
    with pytest.raises(UsageError, match="does not exist"):
        load_target("far_package_of_mine.evaluate")


def test_a_name_that_is_nearly_right_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('training')\n")
    with pytest.raises(UsageError) as caught:
        load_target(tmp_path / "trian.py")
    assert caught.value.advice == f"did you mean {tmp_path / 'train.py'}?"


def test_of_what_is_no_file_another_name_is_given(tmp_path: Path) -> None:
    (tmp_path / "train.py").mkdir()
    (tmp_path / "trains.py").write_text("print('training')\n")
    with pytest.raises(UsageError, match="is a directory") as caught:
        load_target(tmp_path / "train.py")
    assert caught.value.advice == f"did you mean {tmp_path / 'trains.py'}?"


def test_of_a_program_that_may_import_very_much_only_what_was_loaded_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("import used\nimport lazy\n")
    (tmp_path / "used.py").write_text("")
    (tmp_path / "lazy.py").write_text("")
    library = tmp_path.parent / "library.py"
    target = load_target(tmp_path / "train.py")

    def names(*loaded: str) -> list[str]:
        paths = [*(str(tmp_path / name) for name in loaded), str(library)]
        files = files_that_run(target, paths)
        return sorted(file.name for file, _ in files)

    assert names("used.py") == ["lazy.py", "train.py", "used.py"]
    monkeypatch.setattr(imported, "MOST_FILES", 2)
    assert names("used.py") == ["train.py", "used.py"]
    assert names() == ["train.py"]


def test_what_an_option_did_not_choose_is_none_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "if method == 'a':\n    import chosen\nelif method == 'b':\n    import other\n"
        "if __name__ == '__main__':\n    def evaluate():\n        import lazy\n"
    )
    for name in ("chosen", "other", "lazy"):
        (tmp_path / f"{name}.py").write_text("")
    target = load_target(tmp_path / "train.py")

    def names(*loaded: str) -> list[str]:
        return sorted(file.stem for file, _ in files_that_run(target, loaded))

    assert names(str(tmp_path / "chosen.py")) == ["chosen", "lazy", "train"]
    assert names() == ["chosen", "lazy", "other", "train"]  # nobody knows


@pytest.mark.parametrize("path", ['str(ROOT / "src")', 'os.path.join(ROOT, "src")', "SRC"])
def test_modules_are_found_where_the_program_puts_them_on_the_path(
    tmp_path: Path, path: str
) -> None:
    source, scripts = tmp_path / "src" / "net", tmp_path / "scripts"
    source.mkdir(parents=True)
    scripts.mkdir()
    (scripts / "train.py").write_text(
        "ROOT = Path(__file__).resolve().parents[1]\nSRC = f'{ROOT}/src'\n"
        f"sys.path.insert(0, {path})\nfrom net.trainer import Trainer\n"
    )
    for name in ("__init__", "unused"):
        (source / f"{name}.py").write_text("")
    (source / "trainer.py").write_text("def evaluate():\n    from net import lazy\n")
    (source / "lazy.py").write_text("")
    (tmp_path / "requirements.txt").write_text("torch\n")
    target = load_target(scripts / "train.py")

    def names(*loaded: str) -> list[str]:
        files = files_that_run(target, [f"{scripts}/../src/net/{name}.py" for name in loaded])
        return sorted(file.stem for file, _ in files)

    everything = ["__init__", "lazy", "train", "trainer"]
    assert names("__init__", "trainer") == everything
    assert names() == (everything if path != "SRC" else ["train"])  # only a run knows


@pytest.mark.parametrize("error", ["ImportError", "(OSError, ModuleNotFoundError)", ""])
def test_what_could_not_be_imported_is_none_of_the_program(tmp_path: Path, error: str) -> None:
    (tmp_path / "train.py").write_text(
        f"import used\ntry:\n    import missing\nexcept {error}:\n    missing = None\n"
        "try:\n    import wrong\nexcept ValueError:\n    wrong = None\n"
        "def evaluate():\n    try:\n        import lazy\n    except ImportError:\n        pass\n"
    )
    for name in ("used", "wrong", "lazy", "below"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "missing.py").write_text("import below\nimport a_library_that_is_not_there\n")
    target = load_target(tmp_path / "train.py")

    def names(*loaded: str) -> list[str]:
        return sorted(file.stem for file, _ in files_that_run(target, loaded))

    there = [str(tmp_path / f"{name}.py") for name in ("train", "used")]
    assert names(*there) == ["lazy", "train", "used", "wrong"]
    assert {"missing", "below"} <= set(names(*there, str(tmp_path / "missing.py")))
    assert {"missing", "below"} <= set(names())  # nobody knows


def test_a_notebook_is_told_what_to_do(tmp_path: Path) -> None:
    notebook = tmp_path / "train.ipynb"
    notebook.write_text('{"cells": []}')
    with pytest.raises(UsageError, match="is a notebook") as raised:
        load_target(notebook)
    assert "nbconvert" in raised.value.advice
