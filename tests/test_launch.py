"""How a searched program is started: the command, the environment, and what is said of it."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.knobs.knob import Config
from autotune.launch import CHANGED, Launch, prepare
from autotune.outputs.document import read_document, write_document
from autotune.source import unified_patch
from autotune.source.edits import EditOutcome, LoaderArgument
from autotune.workload.program.target import OBJECTS, load_target
from tests.injection.programs import LOADER_LINE, PLAIN, TUNED, searched


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "train.py"


def told(launch: Launch) -> Config | None:
    """The settings that the program's processes find in their environment."""
    order = launch.environment.get("AUTOTUNE_RUN")
    return json.loads(order)["settings"] if order else None


def refused(out: Path, *knobs: str) -> None:
    """Let the patch of `out` be without `knobs`."""
    edit = LoaderArgument(name="num_workers", code="1")
    edits = tuple(EditOutcome(knob=knob, edit=edit, status="refused") for knob in knobs)
    write_document(replace(read_document(out / "result.json"), edits=edits), out / "result.json")


def with_patch(out: Path, script: Path) -> str:
    """The text that a patch in `out`, which puts in one line, makes of PLAIN."""
    tuned = PLAIN.replace("import torch\n", "import torch\ntorch.set_num_threads(1)\n", 1)
    patch = unified_patch({str(script): PLAIN}, {str(script): tuned}, str(script.parent))
    (out / "tuned.patch").write_text(patch)
    return tuned


def test_the_settings_and_the_loader_they_are_for_go_with_the_program(script: Path) -> None:
    launch = prepare(searched(script, PLAIN, TUNED), ["--epochs", "3"])

    assert launch.command == (sys.executable, str(script), "--epochs", "3")
    assert json.loads(launch.environment["AUTOTUNE_RUN"]) == {
        "settings": TUNED,
        "loader": {"path": str(script), "line": LOADER_LINE, "ordinal": None},
        "passed_loops": 0,
    }
    assert launch.summary == "train.py with threads 1, num_workers 1, optimizer fused"
    assert launch.warning == ""


def test_the_environment_is_otherwise_the_users(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    environment = prepare(searched(script, PLAIN, TUNED)).environment

    startup, mine = environment.pop("PYTHONPATH").split(os.pathsep)
    assert (Path(startup) / "sitecustomize.py").is_file() and mine == "/mine"
    del environment["AUTOTUNE_RUN"]
    assert environment == {name: each for name, each in os.environ.items() if name != "PYTHONPATH"}


def test_the_arguments_of_the_search_are_taken_where_none_are_given(script: Path) -> None:
    out = searched(script, PLAIN, TUNED)
    result = read_document(out / "result.json")
    target = replace(result.target, arguments=("--lr", "0.1"))
    write_document(replace(result, target=target), out / "result.json")

    assert prepare(out).command[2:] == ("--lr", "0.1")
    assert prepare(out, ["--lr", "0.2"]).command[2:] == ("--lr", "0.2")


def test_the_settings_of_a_trial_may_be_taken_instead(script: Path) -> None:
    out = searched(script, PLAIN, TUNED)

    launch = prepare(out, trial=3)
    assert told(launch) == {"num_workers": 2, "threads": 1}
    assert launch.summary == "train.py as in trial 3: num_workers 2, threads 1"

    launch = prepare(out, trial=0)
    assert told(launch) is None and launch.summary == "train.py as in trial 0: as it is"


@pytest.mark.parametrize(
    ("number", "said"), [(99, "has no trial 99"), (4, "trial 4 failed: No step within 12 s")]
)
def test_a_trial_that_is_not_there_or_failed_is_refused(
    script: Path, number: int, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        prepare(searched(script, PLAIN, TUNED), trial=number)


def test_another_command_may_start_it(script: Path) -> None:
    launch = prepare(searched(script, PLAIN, TUNED), launcher="torchrun --nproc-per-node 2")

    assert launch.command == ("torchrun", "--nproc-per-node", "2", str(script))


@pytest.mark.parametrize(
    ("outcome", "said"),
    [("no_gain", "nothing was found to gain"), ("failed", "no answer"), ("", "yet")],
)
def test_without_settings_it_runs_as_it_is(script: Path, outcome: str, said: str) -> None:
    out = searched(script, PLAIN, TUNED)
    result = read_document(out / "result.json")
    assert result.verdict is not None
    verdict = replace(result.verdict, outcome=outcome) if outcome else None
    write_document(replace(result, verdict=verdict), out / "result.json")

    launch = prepare(out)

    assert launch.environment == dict(os.environ)
    assert launch.command == (sys.executable, str(script))
    assert launch.summary.startswith("train.py as it is") and said in launch.summary


def test_settings_changed_by_hand_are_taken(script: Path) -> None:
    out = searched(script, PLAIN, TUNED)
    (out / "tuned.toml").write_text("[settings]\nnum_workers = 3\n")

    assert told(prepare(out)) == {"num_workers": 3}


def test_a_source_that_has_changed_is_said_and_runs(script: Path) -> None:
    out = searched(script, PLAIN, TUNED)
    script.write_text(PLAIN + "# mine\n")

    launch = prepare(out)

    assert launch.warning == CHANGED.format("train.py")
    assert told(launch) == TUNED


def test_a_module_that_has_changed_is_said(script: Path) -> None:
    out = searched(script, PLAIN, TUNED)
    result = read_document(out / "result.json")
    module = script.with_name("data.py")
    module.write_text("x = 1\n")
    files = {str(module): load_target(module).source_sha256}
    target = replace(result.target, files=files)
    write_document(replace(result, target=target), out / "result.json")
    assert prepare(out).warning == ""

    module.write_text("x = 2\n")
    assert prepare(out).warning == CHANGED.format("data.py")


def test_a_program_that_runs_elsewhere_than_it_lies_is_told_so(
    script: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = searched(script, PLAIN, TUNED)
    (script.parent / "below").mkdir()
    monkeypatch.chdir(script.parent / "below")
    assert prepare(out).warning == ""

    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert f"train.py lies in {script.parent}" in prepare(out).warning


def test_what_an_applied_patch_has_written_is_not_put_in_again(script: Path) -> None:
    out = searched(script, PLAIN, TUNED)
    tuned = with_patch(out, script)
    assert told(prepare(out)) == TUNED  # not applied yet

    script.write_text(tuned)
    assert told(prepare(out)) is None
    assert prepare(out).warning == ""

    refused(out, "num_workers")
    assert told(prepare(out)) == {"num_workers": 1}


def test_the_loader_is_found_where_an_applied_patch_has_moved_it(script: Path) -> None:
    out = searched(script, PLAIN, TUNED)
    script.write_text(with_patch(out, script))
    refused(out, "num_workers")
    order = json.loads(prepare(out).environment["AUTOTUNE_RUN"])
    assert order["loader"]["line"] == LOADER_LINE + 1


def test_settings_are_not_put_in_beside_lines_of_the_patch_that_have_moved(script: Path) -> None:
    out = searched(script, PLAIN, TUNED)
    script.write_text("# mine\n" + with_patch(out, script))
    with pytest.raises(UsageError, match=r"train\.py has lines of .*tuned\.patch"):
        prepare(out)

    (out / "tuned.toml").write_text("[settings]\n")
    assert told(prepare(out)) is None
    (out / "tuned.toml").unlink()
    script.write_text("# mine\n" + PLAIN)
    assert told(prepare(out)) == TUNED


def test_a_trials_settings_are_not_put_beside_those_of_an_applied_patch(script: Path) -> None:
    out = searched(script, PLAIN, TUNED)
    tuned = with_patch(out, script)
    script.write_text(tuned)

    with pytest.raises(UsageError, match="the source has the patch") as refusal:
        prepare(out, trial=3)
    assert "--reverse" in refusal.value.advice


def test_a_result_without_a_program_is_refused(script: Path) -> None:
    out = searched(script, PLAIN, TUNED)
    script.unlink()
    with pytest.raises(UsageError, match=r"train\.py is not there"):
        prepare(out)

    result = read_document(out / "result.json")
    objects = replace(result.target, kind=OBJECTS, path="")
    write_document(replace(result, target=objects), out / "result.json")
    with pytest.raises(UsageError, match="Python objects") as refusal:
        prepare(out)
    assert "Trainer.from_config" in refusal.value.advice
