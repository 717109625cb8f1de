import sys
from pathlib import Path

import pytest

from autotune.cli.typed import retyped, typed

TYPED = ("autotune", "search", "my train.py", "--budget", "60s", "--knob", "threads=1,2")


def test_a_command_is_typed_again_as_it_was() -> None:
    assert retyped((*TYPED, "--", "--lr", "1e-3")) == (
        "autotune search 'my train.py' --budget 60s --knob threads=1,2 -- --lr 1e-3"
    )


def test_a_program_without_arguments_needs_nothing_between() -> None:
    assert retyped(("autotune", "search", "train.py", "--")) == "autotune search train.py"


@pytest.mark.parametrize("budget", [("--budget", "60s"), ("--budget=60s",), ()])
def test_another_budget_takes_the_place_of_its_own(budget: tuple[str, ...]) -> None:
    command = ("autotune", "search", "train.py", *budget, "--", "--budget", "9")

    again = retyped(command, budget="3m")

    assert again == "autotune search train.py --budget 3m -- --budget 9"


def test_a_knob_that_is_left_alone_is_a_flag_before_the_program_s_arguments() -> None:
    assert retyped((*TYPED, "--", "--lr", "1e-3"), off="precision") == (
        "autotune search 'my train.py' --budget 60s --knob threads=1,2 --knob precision=off "
        "-- --lr 1e-3"
    )


@pytest.mark.parametrize("values", [("--knob", "threads=1,2"), ("--knob=threads=1,2",)])
def test_a_knob_that_is_left_alone_has_no_values_any_more(values: tuple[str, ...]) -> None:
    again = retyped((*TYPED[:3], *values, "--knob", "blas_threads=1"), off="threads")

    assert again == "autotune search 'my train.py' --knob blas_threads=1 --knob threads=off"


def test_another_command_takes_the_place_of_its_own() -> None:
    command = ("autotune", "profile", "profile", "--seed", "3")

    assert retyped(command, as_command="search") == "autotune search profile --seed 3"


def test_a_program_off_the_path_is_called_by_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "of mine" / "autotune"), "search"])

    assert typed("apply", "out") == "'of mine/autotune' apply out"


def test_a_program_on_the_path_is_called_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "autotune"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program), "search"])

    assert typed("apply", "out") == "autotune apply out"


def test_a_module_is_called_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/lib/autotune/__main__.py", "search"])

    assert typed("apply", "out").endswith(" -m autotune apply out")
