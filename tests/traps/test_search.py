"""A trap through a whole search: it is refused in a sentence, and the rest is searched."""

from pathlib import Path

from autotune import flow
from autotune.flow import Options
from autotune.measurement.sandbox import tree_hash
from tests.traps.programs import stream


def test_workers_that_repeat_every_sample_do_not_win(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(stream("for sample in zip(X, Y):\n    time.sleep(0.002)\n    yield sample"))
    before = tree_hash([tmp_path])
    options = Options(budget_seconds=15, trials=2, knobs={"num_workers": (0, 2), "threads": (1, 2)})
    result = flow.search(program, options=options)
    assert result.space is not None
    refused = {each.knob: each.reason for each in result.space.skipped if each.refused}
    assert list(refused) == ["num_workers"]
    assert refused["num_workers"].startswith("with 2 workers, the program would be given other")
    assert "every sample comes 2 times" in refused["num_workers"]
    assert "threads" in result.space.choices
    assert all("num_workers" not in trial.config for trial in result.trials)
    assert tree_hash([tmp_path]) == before
