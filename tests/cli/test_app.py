import os
import subprocess
import sys
from pathlib import Path

import pytest

import autotune
from autotune.errors import AutotuneError, MeasurementError, PatchError, ProgramError, UsageError
from autotune.outputs.document import write_document
from tests import builders
from tests.cli.conftest import MadeUpFlow, Run


def autotune_command(*words: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "autotune", *words)


def python(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_help_names_every_command() -> None:
    answer = autotune_command("--help")

    assert answer.returncode == 0
    assert answer.stderr == ""
    for command in ("profile", "search", "run", "apply", "report", "compare", "explain", "doctor"):
        assert f"  {command} " in answer.stdout


def test_the_version_is_said() -> None:
    answer = autotune_command("--version")

    assert (answer.returncode, answer.stdout) == (0, f"autotune {autotune.__version__}\n")


@pytest.mark.parametrize("words", [("explain",), ("explain", "num_workers")])
def test_what_cannot_be_written_is_said_in_a_sentence(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "autotune", *words]
        answer = subprocess.run(
            command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )

    assert answer.returncode == 2
    assert answer.stderr == "Error: Nothing more can be written: No space left on device.\n"


@pytest.mark.parametrize(
    "words", [["explain"], ["compare", "a", "a"], ["compare", "a", "a", "--json"]]
)
def test_it_ends_quietly_where_nobody_reads_on(tmp_path: Path, words: list[str]) -> None:
    write_document(builders.profile_result(), tmp_path / "a" / "result.json")
    reads, writes = os.pipe()
    os.close(reads)  # as `head -1` does once it has its line
    with open(writes, "w") as nobody:
        command = [sys.executable, "-m", "autotune", *words]
        answer = subprocess.run(
            command, check=False, cwd=tmp_path, stdout=nobody, stderr=subprocess.PIPE, timeout=60
        )

    assert (answer.returncode, answer.stderr) == (128 + 13, b"")


def test_a_pipe_to_another_process_that_breaks_is_an_error(run: Run, made_up: MadeUpFlow) -> None:
    made_up.result = BrokenPipeError()

    answer = run("search", "photos.py")

    assert answer.exit_code == MeasurementError.exit_code
    assert "Error: a process that it works with has ended" in answer.stderr


@pytest.mark.parametrize("words", [["report"], ["search"]])
def test_a_name_that_is_too_long_is_said(words: list[str]) -> None:
    answer = autotune_command(*words, "a" * 300)

    assert answer.returncode == 2
    assert "aaaa… is 300 characters long: File name too long" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    "words", [["--help"], ["search", "--help"], ["--version"], ["explain"], ["explain", "threads"]]
)
def test_what_only_says_something_loads_no_slow_library(words: list[str]) -> None:
    program = (
        "import sys, autotune.cli\n"
        f"sys.argv = ['autotune', *{words!r}]\n"
        "try: autotune.cli.main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "slow = {'torch', 'optuna', 'libcst', 'jinja2', 'numpy'} & set(sys.modules)\n"
        "assert not slow, slow"
    )

    answer = python("-c", program)

    assert answer.returncode == 0, answer.stderr


def test_an_option_that_may_be_the_programs_own_is_told_its_place() -> None:
    answer = autotune_command("search", "train.py", "--epochs", "3")

    assert answer.returncode == 2
    assert "No such option: --epochs. What follows -- is the program's own" in answer.stderr


def test_an_option_that_is_misspelt_is_told_the_nearest() -> None:
    answer = autotune_command("search", "train.py", "--bugdet", "30s")

    assert answer.returncode == 2
    assert "No such option: --bugdet. Did you mean --budget?" in answer.stderr
    assert "Possible options" not in answer.stderr


def test_a_search_that_has_not_begun_has_loaded_no_torch() -> None:
    program = (
        "import sys, autotune.cli\n"
        "sys.argv = ['autotune', 'search', 'there_is_no_such_file.py']\n"
        "try: autotune.cli.main()\n"
        "except SystemExit as end: assert end.code == 2, end.code\n"
        "assert 'torch' not in sys.modules"
    )

    answer = python("-c", program)

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ["search"],
        ["search", "train.py", "--trials", "0"],
        ["search", "train.py", "--epochs", "3"],
        ["nonsense"],
    ],
)
def test_a_wrong_command_says_how_it_is_used_and_exits_with_2(run: Run, words: list[str]) -> None:
    answer = run(*words)

    assert answer.exit_code == 2
    assert "Usage: autotune" in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProgramError("train.py failed", "Mend it."), 1),
        (UsageError("there is no train.py", "Name one."), 2),
        (PatchError("train.py has changed", "Search again."), 2),
        (MeasurementError("nothing was seen", "Train longer."), 4),
    ],
)
def test_an_error_is_a_message_with_advice_and_an_exit_code(
    run: Run, made_up: MadeUpFlow, error: AutotuneError, code: int
) -> None:
    made_up.result = error

    answer = run("profile", "train.py", "--json")

    assert answer.exit_code == code
    assert f"Error: {error.message}\n  {error.advice}\n" in answer.stderr
    assert "Traceback" not in answer.output
    assert answer.stdout == ""


def test_a_failed_program_s_own_last_words_are_shown(run: Run, made_up: MadeUpFlow) -> None:
    output = (
        "\n".join(f"epoch {number}" for number in range(100)) + "\n\x1b[31mKeyError: 'x'\x1b[0m"
    )
    made_up.result = ProgramError("train.py failed", output=output)

    answer = run("search", "train.py")

    assert "  KeyError: 'x'\n" in answer.stderr
    assert "epoch 99" in answer.stderr
    assert "epoch 1\n" not in answer.stderr


def test_of_a_long_traceback_its_beginning_is_shown_too(run: Run, made_up: MadeUpFlow) -> None:
    calls = [f'  File "train.py", line {line}, in main' for line in range(99)]
    output = "\n".join(["epoch 1", "Traceback (most recent call last):", *calls, "KeyError: 'x'"])
    made_up.result = ProgramError("train.py failed", output=output)

    said = run("profile", "train.py").stderr

    assert "line 0, in main\n" in said and "line 98, in main\n" in said
    assert "… 71 more lines" in said and "line 50," not in said
    assert "KeyError: 'x'" in said and "epoch 1" not in said


@pytest.mark.parametrize("words", [("train.py",), ("train.py", "--fresh")])
def test_an_interrupted_search_says_that_it_can_go_on(
    run: Run, made_up: MadeUpFlow, words: tuple[str, ...]
) -> None:
    made_up.result = KeyboardInterrupt()

    answer = run("search", *words)

    assert answer.exit_code == 130
    assert answer.stderr == (
        "Interrupted; trials that had ended by then, if any, are kept: the same command has them.\n"
    )


def test_an_interrupted_profile_says_so(run: Run, made_up: MadeUpFlow) -> None:
    made_up.result = KeyboardInterrupt()

    answer = run("profile", "train.py")

    assert (answer.exit_code, answer.stderr) == (130, "Interrupted.\n")
