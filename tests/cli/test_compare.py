import json
from pathlib import Path

import pytest

from autotune.outputs.document import write_document
from autotune.profiling.profile import PROCESSORS_TAKEN, Doubt
from tests import builders
from tests.cli.conftest import Run


@pytest.fixture
def slower(run: Run, tmp_path: Path) -> None:
    """Folders a to d: b is 17 % slower than a, c the same but for a wide interval, d by no more
    than two processes of one program may differ.
    """
    speeds = {
        "a": (180.0, (178.0, 182.0)),
        "b": (150.0, (148.0, 152.0)),
        "c": (150.0, (90.0, 250.0)),
        "d": (166.0, (165.0, 167.0)),
    }
    for name, (speed, interval) in speeds.items():
        profile = builders.profile(samples_per_second=speed, interval=interval)
        result = builders.profile_result(profile=profile)
        write_document(result, tmp_path / name / "result.json")


@pytest.mark.usefixtures("slower")
def test_the_difference_is_said_in_one_sentence(run: Run) -> None:
    answer = run("compare", "a", "b")

    assert answer.exit_code == 0
    assert answer.stdout.startswith("B is slower: 0.83× the speed of A (0.75× to 0.92×")
    assert "programs as they are: neither result has a faster one." in answer.stdout
    assert "samples/s as it is  180      150" in answer.stdout
    assert "tuned" not in answer.stdout


@pytest.mark.usefixtures("slower")
@pytest.mark.parametrize("after", ["c", "d"])
def test_what_chance_explains_is_no_difference(run: Run, after: str) -> None:
    assert run("compare", "a", after).stdout.startswith("No difference was shown")


@pytest.mark.usefixtures("slower")
def test_what_two_searches_handed_back_is_compared(run: Run, tmp_path: Path) -> None:
    write_document(builders.search_result(), tmp_path / "found" / "result.json")

    both, one = run("compare", "found", "found").stdout, run("compare", "a", "found").stdout

    assert "the faster programs that the two searches handed back" in both
    assert "samples/s tuned     380      380" in both
    assert "programs as they are: A does not have a faster one." in one


@pytest.mark.usefixtures("slower")
@pytest.mark.parametrize(
    ("pair", "percent", "code"),
    [
        ("ab", "5", 3),
        ("ab", "15", 0),
        ("ac", "5", 0),
        ("ad", "0", 0),
        ("ba", "5", 0),
        ("aa", "0", 0),
    ],
)
def test_it_gates_what_is_slower_beyond_doubt(run: Run, pair: str, percent: str, code: int) -> None:
    answer = run("compare", *pair, "--fail-slower", percent)

    assert answer.exit_code == code
    assert ("Slower by more than" in answer.stdout) == bool(code)


@pytest.mark.usefixtures("slower")
def test_what_was_disturbed_is_said_not_to_be_held_to_the_gate(run: Run, tmp_path: Path) -> None:
    taken = Doubt(name=PROCESSORS_TAKEN, evidence="In 4 of 6 windows.", advice="Stop them.")
    profile = builders.profile(samples_per_second=90.0, interval=(89.0, 91.0), doubts=(taken,))
    write_document(builders.profile_result(profile=profile), tmp_path / "e" / "result.json")

    said = "Not held to --fail-slower: one of them lacked processors."
    answer = run("compare", "a", "e", "--fail-slower", "5")
    assert answer.exit_code == 0 and said in answer.stdout
    assert said not in run("compare", "a", "e").stdout
    assert said not in run("compare", "a", "b", "--fail-slower", "5").stdout


@pytest.mark.usefixtures("slower")
def test_json_is_one_document(run: Run) -> None:
    answer = run("compare", "a/result.json", "b", "--json", "--fail-slower", "5")

    document = json.loads(answer.stdout)
    assert answer.exit_code == 3
    assert document["slower"] is True
    assert document["speedup"]["estimate"] == pytest.approx(150 / 180)


@pytest.mark.usefixtures("slower")
def test_a_folder_of_folders_with_results_names_them(run: Run, tmp_path: Path) -> None:
    answer = run("compare", ".", "b")

    assert answer.exit_code == 2
    assert "Name one of them: a, b, c, d." in answer.stderr


@pytest.mark.usefixtures("slower")
def test_another_machine_is_said(run: Run, tmp_path: Path) -> None:
    profile = builders.profile(machine=builders.machine(device_name="NVIDIA H200"))
    result = builders.profile_result(profile=profile)
    write_document(result, tmp_path / "e" / "result.json")

    assert "Measured on different machines" in run("compare", "a", "e").stdout


@pytest.mark.usefixtures("slower")
def test_a_folder_without_a_result_is_refused(run: Run) -> None:
    answer = run("compare", "a", "nowhere")

    assert answer.exit_code == 2
    assert "nowhere" in answer.stderr
