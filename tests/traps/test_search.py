"""A trap through a whole search: it is refused in a sentence, and nothing is gained."""

from pathlib import Path

import pytest

from autotune import flow
from autotune.flow import Options
from autotune.knobs import KNOBS
from tests.traps.programs import stream
from tests.trees import tree_hash


@pytest.mark.alone
@pytest.mark.usefixtures("brief")
def test_workers_that_repeat_every_sample_do_not_win(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(stream("for sample in zip(X, Y):\n    time.sleep(0.002)\n    yield sample"))
    before = tree_hash([tmp_path])
    others = {knob.name: None for knob in KNOBS if knob.name != "num_workers"}
    options = Options(budget_seconds=30, knobs={**others, "num_workers": (0, 2)})
    result = flow.search(program, options=options)
    assert result.space is not None
    refused = {each.knob: each.reason for each in result.space.skipped if each.refused}
    assert list(refused) == ["num_workers"]
    assert refused["num_workers"].startswith("with 2 workers, the program would be given other")
    assert "every sample comes 2 times" in refused["num_workers"]
    assert not any(trial.config for trial in result.trials)
    assert result.verdict is not None and result.verdict.outcome == "no_gain"
    assert tree_hash([tmp_path]) == before
