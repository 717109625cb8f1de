from pathlib import Path

import pytest

from tests.bench.contestants import RECIPE_LINE
from tests.bench.stopwatch import Lines, Timing, finding, mean_and_reach, time_program

EPOCHS = Lines(pattern=r"epoch (?P<epoch>\d+): ", batch=32, epoch_samples=100)
STEPS = Lines(pattern=RECIPE_LINE, batch=32, epoch_samples=100)


def run_of(*marks: tuple[float, int]) -> Timing:
    return Timing(wall_seconds=9.0, own_cores=1.0, other_cores=0.0, stolen_cores=0.0, marks=marks)


def program(folder: Path, text: str) -> Path:
    file = folder / "examples" / "train.py"
    file.parent.mkdir()
    file.write_text(text)
    return file


def test_a_line_tells_how_far_the_training_is():
    assert EPOCHS.samples("epoch 2: loss 0.1, 300 samples/s") == 200
    assert STEPS.samples("epoch 2/5  step 3  loss 0.1  300 samples/s") == 100 + 3 * 32
    assert STEPS.samples("validation loss 0.1") is None


def test_the_last_batch_of_an_epoch_is_not_counted_as_a_whole_one():
    assert STEPS.samples("epoch 1/5  step 4  loss 0.1  300 samples/s") == 100


def test_the_warm_up_and_pauses_are_not_in_the_rate():
    slow_start, validation = (5.0, 100), (8.0, 300)
    timing = run_of(slow_start, (6.0, 200), (7.0, 300), validation, (9.0, 400))
    assert timing.rate(100) == 100


def test_a_run_that_is_all_warm_up_has_no_rate():
    with pytest.raises(ValueError, match="too short"):
        run_of((1.0, 100)).rate(100)


def test_a_program_is_timed_by_what_it_prints(tmp_path):
    text = "for epoch in (1, 2, 3):\n    print(f'epoch {epoch}: done')\nprint('validation')\n"
    timing = time_program(program(tmp_path, text), [], EPOCHS, tmp_path)
    assert [samples for _, samples in timing.marks] == [100, 200, 300, 300]
    assert 0 < timing.marks[0][0] <= timing.wall_seconds


def test_the_timed_process_cannot_import_autotune(tmp_path):
    with pytest.raises(RuntimeError, match="without autotune"):
        time_program(program(tmp_path, "import autotune"), [], EPOCHS, tmp_path)


def test_the_timed_process_finds_the_packages_that_were_brought_along(tmp_path, monkeypatch):
    brought, checkout, empty = (tmp_path / name for name in ("site", "checkout", "empty"))
    for package in (brought / "pictures", checkout / "autotune", checkout / "tests", empty):
        package.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", f"{brought}:{checkout}")
    text = "import sys\nimport pictures\nprint('epoch 1:', sys.path)\n"
    assert time_program(program(tmp_path, text), [], EPOCHS, empty).marks
    paths = finding(empty)["PYTHONPATH"].split(":")
    assert paths == [str(empty), str(brought)]


def test_a_program_that_fails_is_no_timing(tmp_path):
    with pytest.raises(RuntimeError, match=r"train\.py failed"):
        time_program(program(tmp_path, "import sys; sys.exit(3)"), [], EPOCHS, tmp_path)


def test_the_interval_of_one_value_is_not_known():
    assert mean_and_reach([2.0]) == (2.0, None)
    mean, reach = mean_and_reach([1.0, 3.0])
    assert mean == 2.0
    assert reach == pytest.approx(12.71)
