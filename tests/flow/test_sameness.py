"""Which searches are the same: what may change the trials or the answer makes another key."""

import ast
import hashlib
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotune import flow
from autotune.flow import Options
from autotune.flow.sameness import program_key, search_key, study_key
from autotune.flow.settings_files import settings_named
from autotune.workload.program.target import load_target
from tests import builders


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that imports a module of its project, which imports another, and reads settings."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "layers.py").write_text("SIZE = 8\n")
    (tmp_path / "model.py").write_text("from parts.layers import SIZE\n")
    (tmp_path / "train.py").write_text("def main():\n    import model\n\nmain()\n")
    (tmp_path / "notes.py").write_text("")
    (tmp_path / "settings.toml").write_text("lr = 0.1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def context(*arguments: str, **options: Any) -> Any:
    arguments = arguments or ("--config=settings.toml",)
    return SimpleNamespace(
        target=load_target("train.py", arguments),
        machine=builders.machine(),
        options=Options(**options),
    )


def test_the_same_program_has_the_same_key_and_its_name(project: Path) -> None:
    assert program_key(context()) == program_key(context(budget_seconds=9.0))
    assert program_key(context()).startswith("train-")


def test_a_result_has_the_project_and_the_hashes_of_the_program_s_other_files(
    project: Path,
) -> None:
    (project / ".git").mkdir()
    bench = SimpleNamespace(protection="")
    given: Any = SimpleNamespace(began=0.0, bench=bench, **vars(context()))
    facts = flow._result(given, builders.profile()).target
    names = ("model.py", "parts/layers.py", "parts/__init__.py")
    assert facts.root == str(project)
    assert facts.files == {
        str(project / name): hashlib.sha256((project / name).read_bytes()).hexdigest()
        for name in names
    }


@pytest.mark.parametrize("name", ["train.py", "model.py", "parts/layers.py", "parts/__init__.py"])
def test_a_change_in_whatever_the_program_imports_makes_another(project: Path, name: str) -> None:
    before = program_key(context())
    with (project / name).open("a") as file:
        file.write("# changed\n")
    assert program_key(context()) != before


def test_a_change_in_the_settings_that_an_argument_names_makes_another(project: Path) -> None:
    before = program_key(context()), program_key(context("settings.toml"))
    (project / "settings.toml").write_text("lr = 0.2\n")
    assert program_key(context()) != before[0]
    assert program_key(context("settings.toml")) != before[1]


def test_a_change_in_the_settings_that_the_program_names_itself_makes_another(
    project: Path,
) -> None:
    named = ("settings.toml", "config.py", "notes.txt", "missing.json")
    (project / "model.py").write_text(f"NAMED = {named}\n")
    before = program_key(context("--lr", "1"))
    (project / "notes.txt").write_text("changed\n")
    assert program_key(context("--lr", "1")) == before
    (project / "settings.toml").write_text("lr = 0.2\n")
    after = program_key(context("--lr", "1"))
    (project / "config.py").write_text("lr = 0.2\n")
    assert len({before, after, program_key(context("--lr", "1"))}) == 3


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("@hydra.main(version_base=None, config_path='conf', config_name='config')", True),
        ("@hydra.main(config_path='../' + 'conf')", False),  # another folder
        ("cfg = OmegaConf.load(f'conf/data/{args.exp}.yaml')", True),
        ("path = os.path.join('conf', 'data', name + '.yaml')", True),
        ("path = Path(__file__).parent / 'conf' / 'data' / f'{name}.yaml'", True),
        ("path = Path('conf') / 'start.yaml'", True),  # which goes on from the other
        ("path = Path(__file__).parent / 'conf/data/cifar.yaml'", True),
        ("file = open(f'conf/data/{name}.yaml', 'w')", False),  # written, not read
        ("file = open('conf/data/cifar.yaml', mode='w')", False),
        ("file = Path('conf/data/cifar.yaml').open('w')", False),
        ("Path('conf/data/cifar.yaml').write_text(text)", False),
        ("Path('runs/a.yaml').write_text(open('conf/data/cifar.yaml').read())", True),
        ("file = codecs.open('conf/data/cifar.yaml', 'r', 'ascii')", True),
        ("names = [f'{folder}/{name}.yaml', 'conf', 'conf/data', f'conf/{name}/cifar.txt']", False),
    ],
)
def test_settings_that_are_named_in_part_or_by_their_folder_count(
    project: Path, text: str, counts: bool
) -> None:
    (project / "conf" / "data").mkdir(parents=True)
    (project / "conf" / "start.yaml").write_text("_base_: data/cifar.yaml\n")
    (project / "conf" / "data" / "cifar.yaml").write_text("size: 8\n")
    (project / "model.py").write_text(f"{text}\ndef main(cfg): ...\n" if "@" in text else text)
    before = program_key(context())
    (project / "conf" / "data" / "cifar.yaml").write_text("size: 9\n")
    assert (program_key(context()) != before) is counts


def test_settings_are_found_among_many_other_files(project: Path) -> None:
    (project / "conf").mkdir()
    for number in range(2000):
        (project / "conf" / f"{number}.pt").write_text("")
    (project / "conf" / "config.yaml").write_text("size: 8\n")
    (project / "model.py").write_text("@hydra.main(config_path='conf')\ndef main(cfg): ...\n")
    before = program_key(context())
    (project / "conf" / "config.yaml").write_text("size: 9\n")
    assert program_key(context()) != before


def test_files_of_data_that_name_many_others_are_not_all_read(project: Path) -> None:
    for number in range(300):
        (project / f"{number}.xml").write_text("")
    (project / "boxes.json").write_text(" ".join(f"{number}.xml" for number in range(300)))
    tree = ast.parse("BOXES = 'boxes.json'")
    assert len(list(settings_named(tree, (project,)))) == 200


def test_a_long_word_in_settings_takes_no_time(project: Path) -> None:
    (project / "settings.toml").write_text("x" * 100_000)
    began = time.process_time()
    list(settings_named(ast.parse("NAMED = 'settings.toml'"), (project,)))
    assert time.process_time() - began < 5


def test_variables_count_that_are_not_of_the_shell_or_a_job(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "model.py").write_text(r"NAMED = '_', 'SLURM_JOB_ID', 'RATE', '\ud800'" + "\n")
    keys = []
    for name in ("SLURM_JOB_ID", "_", "RATE"):
        keys.append(program_key(context()))
        monkeypatch.setenv(name, "another")
    keys.append(program_key(context()))
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_other_arguments_and_another_machine_make_another(project: Path) -> None:
    other = context()
    other.machine = replace(other.machine, cores=3)
    assert len({program_key(context()), program_key(context("--lr", "1")), program_key(other)}) == 3


def test_a_file_that_is_not_imported_makes_no_difference(project: Path) -> None:
    before = program_key(context())
    (project / "notes.py").write_text("changed = True\n")
    assert program_key(context()) == before


def test_the_answer_hangs_on_the_data_and_on_what_was_asked_for(project: Path) -> None:
    seen = builders.seen()
    assert seen.loader is not None
    larger = replace(seen, loader=replace(seen.loader, dataset_length=7))
    keys = {
        search_key(context(), seen),
        search_key(context(), larger),
        search_key(context(), replace(seen, batch=("float32[1]",))),
        search_key(context(knobs={"num_workers": (0, 2)}), seen),
        search_key(context(memory_limit_bytes=1), seen),
        search_key(context(sampler="tpe"), seen),
        search_key(context(energy=True), seen),
    }
    assert len(keys) == 7
    assert all(key.startswith(program_key(context())) for key in keys)


def test_a_variable_of_the_environment_that_the_program_names_makes_another(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (project / "model.py").open("a") as file:
        file.write("import os\nWIDTH = int(os.environ.get('WIDTH', 8))\n")
    keys = []
    for width in ("64", "2048"):
        monkeypatch.setenv("WIDTH", width)
        keys.append(program_key(context()))
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    assert keys[0] != keys[1] == program_key(context())


def test_a_change_in_a_package_that_is_worked_on_elsewhere_makes_another(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "ownnets").mkdir()
    (elsewhere / "ownnets" / "__init__.py").write_text("")
    (elsewhere / "ownnets" / "wide.py").write_text("WIDTH = 8\n")
    monkeypatch.syspath_prepend(elsewhere)
    with (project / "train.py").open("a") as file:
        file.write("from ownnets.wide import WIDTH\n")
    before = program_key(context())
    (elsewhere / "ownnets" / "wide.py").write_text("WIDTH = 80\n")
    assert program_key(context()) != before


def test_another_model_makes_another_answer(project: Path) -> None:
    seen = builders.seen()
    wider = replace(seen, models=(replace(seen.models[0], parameters=10**9),))
    assert search_key(context(), seen) != search_key(context(), wider)


def test_another_version_of_a_library_that_the_program_imports_makes_another(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (project / "model.py").open("a") as file:
        file.write("import numpy as np\n")
    before, version = program_key(context()), metadata.version
    for library, changes in (("rich", False), ("numpy", True)):
        monkeypatch.setattr(
            metadata, "version", lambda name, other=library: "9" if name == other else version(name)
        )
        assert (program_key(context()) != before) is changes


@pytest.mark.parametrize("versioned", [True, False], ids=["in a repository", "in none"])
def test_a_module_beside_the_program_s_folder_counts(project: Path, versioned: bool) -> None:
    (project / "scripts").mkdir()
    if versioned:
        (project / ".git").mkdir()
    (project / "scripts" / "train.py").write_text(
        "import sys\nsys.path.insert(0, '..')\nfrom parts.layers import SIZE\n"
    )
    target = load_target(project / "scripts" / "train.py", ())
    given = SimpleNamespace(target=target, machine=builders.machine(), options=Options())
    key = program_key(given)  # type: ignore[arg-type]
    (project / "parts" / "layers.py").write_text("SIZE = 16\n")
    assert program_key(given) != key  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY", "LD_PRELOAD"])
def test_a_variable_that_torch_and_its_libraries_read_makes_another(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    keys = []
    for value in ("", "1"):
        monkeypatch.setenv(name, value)
        keys.append((study_key(context(), builders.seen()), search_key(context(), builders.seen())))
    assert keys[0][0] != keys[1][0] and keys[0][1] != keys[1][1]


def test_trials_go_on_only_on_the_same_data_with_the_same_own_settings(project: Path) -> None:
    seen = builders.seen()
    assert seen.loader is not None
    keys = {
        study_key(context(), each)
        for each in (
            seen,
            replace(seen, loader=replace(seen.loader, dataset_length=7)),
            replace(seen, batch=("float32[1]",)),
            replace(seen, threads=1 + seen.threads),
            replace(seen, set_to_none=not seen.set_to_none),
            replace(seen, passed_loops=1),
        )
    }
    assert len(keys) == 6
    assert all(key.startswith(program_key(context())) for key in keys)
    wishes = context(knobs={"num_workers": (0, 2)}, memory_limit_bytes=1)
    assert study_key(wishes, seen) == study_key(context(), seen)
