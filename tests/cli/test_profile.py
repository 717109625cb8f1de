import json
import re
from pathlib import Path

import pytest

from autotune.cli.options import out_folder
from autotune.diagnosis import diagnose
from autotune.measurement.first_epoch import doubts_of_memory
from autotune.outputs.document import from_document, write_document
from autotune.outputs.report import render
from autotune.profiling.profile import NOT_FINITE, PROCESSORS_TAKEN, Ceiling, Doubt
from tests import builders
from tests.cli.conftest import MadeUpFlow, Run


@pytest.fixture(autouse=True)
def _profiled(made_up: MadeUpFlow) -> None:
    made_up.result = builders.profile_result()


def test_the_bottleneck_comes_first_with_its_evidence(run: Run) -> None:
    answer = run("profile", "photos.py")

    lines = answer.stdout.splitlines()
    first = builders.findings()[0]
    assert answer.exit_code == 0
    assert first.headline in lines
    assert lines[lines.index(first.headline) + 1] == first.evidence


def test_a_module_is_named_as_python_names_it(run: Run, made_up: MadeUpFlow) -> None:
    answer = run("profile", "-m", "nets.train", "--", "--lr", "1")
    assert answer.exit_code == 0
    assert (made_up.target, made_up.arguments) == ("nets.train", ("--lr", "1"))


def test_the_step_is_split_into_its_phases(run: Run) -> None:
    shown = run("profile", "photos.py").stdout

    data = next(line for line in shown.splitlines() if line.startswith("  data "))
    assert "━━━" in data
    assert "71 %" in data
    assert "126 ms" in data
    assert "A step takes 177 ms  180 samples/s (175 to 186)" in shown
    assert "copy" not in shown, "there is no device to copy to"


def test_the_ceilings_are_shown_with_what_they_could_gain(run: Run) -> None:
    shown = run("profile", "photos.py").stdout

    assert "with loading in no time          612 samples/s  3.39×" in shown
    assert "with all but loading in no time  252 samples/s  1.40×" in shown


def test_a_gain_is_the_same_figure_in_the_sentence_the_table_and_the_report(
    run: Run, made_up: MadeUpFlow
) -> None:
    made_up.result = builders.profile_result(diagnosis=diagnose(builders.profile()))

    shown, page = run("profile", "photos.py").stdout, render(made_up.result)

    assert "loading faster can gain up to 3.39×." in shown
    assert "samples/s  3.39×" in shown
    assert {each for each in re.findall(r"[\d.]+×", page) if each[0] == "3"} == {"3.39×"}


def test_a_ceiling_that_was_not_measured_says_why(run: Run, made_up: MadeUpFlow) -> None:
    ceiling = Ceiling(
        name="compute", samples_per_second=None, max_gain=None, reason="batches differ in shape"
    )
    made_up.result = builders.profile_result(profile=builders.profile(ceilings=(ceiling,)))

    shown = run("profile", "photos.py").stdout

    assert "with loading in no time  not measured: batches differ in shape" in shown


def test_a_profile_without_ceilings_or_phases_is_shown(run: Run, made_up: MadeUpFlow) -> None:
    empty = builders.profile(ceilings=(), phases={"other": 1.0}, not_measured={})
    made_up.result = builders.profile_result(profile=empty, diagnosis=builders.findings()[:1])

    answer = run("profile", "photos.py")

    assert answer.exit_code == 0
    assert "could be gained" not in answer.stdout
    assert "Also seen" not in answer.stdout


def test_files_and_the_next_command_come_last(run: Run, made_up: MadeUpFlow) -> None:
    typed = ("autotune", "profile", "photos.py", "--device", "cpu", "--", "--name", "a b")
    made_up.result = builders.profile_result(command=typed)

    lines = run("profile", "photos.py").stdout.splitlines()

    assert "Written to autotune-out/photos/  result.json" in lines
    assert lines[-1] == "  autotune search photos.py --device cpu -- --name 'a b'"


def test_other_programs_on_the_processors_are_said_first(run: Run, made_up: MadeUpFlow) -> None:
    taken = Doubt(name=PROCESSORS_TAKEN, evidence="In 4 of 6 windows.", advice="Stop them.")
    made_up.result = builders.profile_result(profile=builders.profile(doubts=(taken,)))

    shown = run("profile", "photos.py").stdout
    brief = run("profile", "photos.py", "--quiet").stdout

    caution = "Measured without all the processors that it could have used: measure again when"
    assert 0 <= shown.index(caution) < shown.index(builders.findings()[0].headline)
    assert brief.startswith(caution)


def test_a_training_that_diverges_is_said_first(run: Run, made_up: MadeUpFlow) -> None:
    wrong = Doubt(name=NOT_FINITE, evidence="The loss was infinite.", advice="")
    made_up.result = builders.profile_result(profile=builders.profile(doubts=(wrong,)))

    said = "Losses are no numbers: mend the training first."
    assert said in run("profile", "photos.py").stdout


def test_figures_of_a_cache_that_fills_are_said_to_be_so_first(
    run: Run, made_up: MadeUpFlow
) -> None:
    (doubt,) = doubts_of_memory(None, ("Photos.cache",))
    made_up.result = builders.profile_result(profile=builders.profile(doubts=(doubt,)))

    shown = run("profile", "photos.py").stdout

    caution = "Measured while a cache may fill: later epochs may be faster by themselves."
    assert 0 <= shown.index(caution) < shown.index(builders.findings()[0].headline)


def test_other_doubts_are_said_below(run: Run, made_up: MadeUpFlow) -> None:
    doubt = Doubt(name="unstable", evidence="Its windows differ.", advice="Stop other programs.")
    made_up.result = builders.profile_result(profile=builders.profile(doubts=(doubt,)))

    shown = run("profile", "photos.py").stdout

    assert "Doubts       Its windows differ. Stop other programs." in shown


def test_what_the_figures_leave_out_is_said(run: Run, made_up: MadeUpFlow) -> None:
    often = (builders.window(validations=3),)
    profile = builders.profile(validation_share=0.23, startup_seconds=14.0, windows=often)
    made_up.result = builders.profile_result(profile=profile)

    shown = run("profile", "photos.py").stdout

    assert (
        "Not counted  Validation took 23 % of the observed run and the start takes 14 s: both are"
        in shown
    )


def test_a_ceiling_below_the_program_as_it_is_gains_nothing(run: Run, made_up: MadeUpFlow) -> None:
    ceiling = Ceiling(name="data", samples_per_second=146.0, max_gain=0.81)
    made_up.result = builders.profile_result(profile=builders.profile(ceilings=(ceiling,)))

    shown = run("profile", "photos.py").stdout

    assert "with all but loading in no time  146 samples/s  would gain nothing" in shown


@pytest.mark.parametrize("was_there", [False, True])
def test_a_folder_that_is_made_by_default_is_not_seen_by_git(run: Run, was_there: bool) -> None:
    folder = Path("autotune-out")
    if was_there:
        folder.mkdir()

    run("profile", "photos.py")

    ignored = folder / ".gitignore"
    assert ignored.exists() != was_there
    assert was_there or ignored.read_text() == "*\n"


def test_a_folder_that_was_named_is_left_alone(run: Run) -> None:
    run("profile", "photos.py", "--out", "mine")

    assert not list(Path().rglob(".gitignore"))


def test_what_is_piped_has_no_codes_and_no_line_is_cut(run: Run) -> None:
    shown = run("profile", "photos.py").stdout

    assert "\x1b" not in shown
    assert all(line == line.rstrip() for line in shown.splitlines())
    assert builders.findings()[1].evidence in shown


def test_json_is_one_document_and_nothing_else(run: Run, made_up: MadeUpFlow) -> None:
    answer = run("profile", "photos.py", "--json")

    assert from_document(json.loads(answer.stdout)) == made_up.result
    assert answer.stderr == "Profiling\n"


def test_quiet_is_the_answer_alone(run: Run) -> None:
    answer = run("profile", "photos.py", "--quiet")

    assert answer.output == f"{builders.findings()[0].headline}\n"


def test_what_follows_two_dashes_goes_to_the_program(run: Run, made_up: MadeUpFlow) -> None:
    run("profile", "some/train.py", "--seed", "7", "--", "--seed", "1", "--", "x", "--json")

    assert made_up.target == "some/train.py"
    assert made_up.arguments == ("--seed", "1", "--", "x", "--json")
    assert made_up.options.seed == 7
    assert made_up.options.out == Path("autotune-out/train")


def test_a_profile_is_not_written_over_what_a_search_has_found(
    run: Run, made_up: MadeUpFlow, tmp_path: Path
) -> None:
    write_document(builders.search_result(), tmp_path / "out" / "result.json")
    run("profile", "photos.py", "--out", str(tmp_path / "out"))
    assert made_up.options.out == tmp_path / "out" / "profile"
    run("profile", "photos.py", "--out", str(tmp_path / "other"))
    assert made_up.options.out == tmp_path / "other"


@pytest.mark.parametrize(
    ("target", "name"),
    [("a/train.py", "train"), ("pkg.train", "train"), ("pkg.finetune", "finetune")],
)
def test_the_default_folder_is_named_after_the_program(target: str, name: str) -> None:
    assert out_folder(None, target) == Path("autotune-out") / name


@pytest.mark.parametrize("command", ["profile", "search"])
def test_another_program_of_the_same_name_has_a_folder_of_its_own(
    run: Run, made_up: MadeUpFlow, tmp_path: Path, command: str
) -> None:
    programs = [tmp_path / folder / "train.py" for folder in ("mnist", "imagenet")]
    for program in programs:
        program.parent.mkdir()
        program.touch()
    target = builders.target(path=str(programs[0].resolve()))
    kept = builders.search_result if command == "search" else builders.profile_result
    made_up.result = kept(target=target)

    for _ in range(2):
        said = run(command, "mnist/train.py").stdout
        assert made_up.options.out == Path("autotune-out/train")
        assert "another program" not in said
    run(command, "imagenet/train.py")
    assert made_up.options.out == Path("autotune-out/train-2")

    programs[0].unlink()
    run(command, "imagenet/train.py")
    assert made_up.options.out == Path("autotune-out/train")


def test_a_search_that_leaves_the_default_folder_to_another_program_says_so(
    run: Run, made_up: MadeUpFlow, tmp_path: Path
) -> None:
    for folder in ("mnist", "imagenet"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").touch()
    other = builders.target(path=str((tmp_path / "mnist" / "train.py").resolve()))
    made_up.result = builders.search_result(target=other)
    write_document(made_up.result, Path("autotune-out/train/result.json"))

    said = " ".join(run("search", "imagenet/train.py").stdout.split())

    assert "autotune-out/train has the results of another program." in said
    assert "Written to autotune-out/train-2/" in said
