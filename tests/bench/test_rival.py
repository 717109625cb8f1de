import ast
from pathlib import Path

import psutil
import pytest

from autotune.workload.program.target import load_target
from tests.bench.contestants import EXAMPLES, Example
from tests.bench.rival import DEFAULTS, SNIPPET, Answer, adopted, tune
from tests.measurement.test_process import eventually

EXAMPLES_FOLDER = Path(__file__).parents[2] / "examples"
ANSWER = Answer(found=True, said="[loadtune] best overall: workers=2, persistent — 1.31x baseline")


def with_snippet(folder: Path, example: Example, note: str = "") -> Path:
    """The original as it would be timed, beside what loadtune wrote."""
    program = folder / example.original
    program.write_text(load_target(EXAMPLES_FOLDER / f"{example.name}.py").program_source)
    (folder / SNIPPET).write_text(note)
    return program


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_what_loadtune_recommends_can_be_put_into_every_example(tmp_path, example):
    program = with_snippet(tmp_path, example)
    adopted(ANSWER, example, tmp_path)
    names = {node.id for node in ast.walk(ast.parse(program.read_text())) if hasattr(node, "id")}
    assert {"get_dataloader_kwargs", "apply_global_configs", "apply_model_configs"} <= names


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_workload_is_a_program_that_offers_a_workload(example):
    functions = [node for node in ast.parse(example.workload).body if hasattr(node, "name")]
    assert functions[-1].name == "get_workload"


def test_its_own_words_are_kept(tmp_path):
    with_snippet(tmp_path, EXAMPLES[0])
    answer = adopted(ANSWER, EXAMPLES[0], tmp_path)
    assert (answer.settings, answer.claimed) == ("workers=2, persistent", 1.31)


def test_half_precision_is_adopted_as_its_trials_had_it(tmp_path):
    program = with_snippet(tmp_path, EXAMPLES[0], "# [AMP] active: wrap your training step")
    adopted(ANSWER, EXAMPLES[0], tmp_path)
    assert "torch.autocast" in program.read_text()


def test_a_program_that_cannot_take_its_settings_is_an_error(tmp_path):
    program = with_snippet(tmp_path, EXAMPLES[0])
    program.write_text("print('another program')")
    with pytest.raises(ValueError, match=r"photos\.py has no"):
        adopted(ANSWER, EXAMPLES[0], tmp_path)


def test_a_search_that_takes_too_long_is_ended_with_its_trials(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho trial 1 of 6\nsleep 99 &\necho $! > pid\nwait\n")
    python.chmod(0o755)
    (tmp_path / "examples").mkdir()
    answer = tune(python, EXAMPLES[0], tmp_path, options=DEFAULTS, limit_seconds=2.0)
    assert not answer.found
    assert answer.said == "trial 1 of 6\n\ntook longer than 2 s"
    trial = int((tmp_path / "pid").read_text())
    assert eventually(lambda: _is_over(trial))  # the kernel ends what was killed in its own time


def _is_over(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
