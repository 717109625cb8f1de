"""What a search hands back as files, and what becomes of those that an earlier one left."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from autotune import outputs
from autotune.outputs import EARLIER, write_outputs
from autotune.outputs.config import write_config
from autotune.outputs.patch import Emission
from autotune.workload.program.target import Target
from tests import builders


def test_a_faster_program_is_kept_where_a_later_search_finds_none(tmp_path: Path) -> None:
    target = Target(kind="script", path="/p/train.py", directory="/p")
    faster, emission = builders.search_result(), Emission(program="tuned = True\n", patch="a patch")
    written = {
        each.name: each.read_bytes() for each in write_outputs(faster, emission, target, tmp_path)
    }
    assert {"tuned.patch", "tuned.toml", "train_tuned.py"} <= written.keys()

    for _ in range(2):
        write_outputs(builders.failed_result(), Emission(), target, tmp_path)

    assert not (tmp_path / "tuned.patch").exists()
    kept = {each.name: each.read_bytes() for each in (tmp_path / EARLIER).iterdir()}
    assert kept == written


def test_an_interrupt_waits_until_the_answer_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        write_config(*given)

    monkeypatch.setattr(outputs, "write_config", interrupted)
    result, target = builders.search_result(), builders.target()
    with pytest.raises(KeyboardInterrupt):
        write_outputs(result, Emission(), target, tmp_path)
    assert {"tuned.toml", "report.html", "result.json"} <= {
        each.name for each in tmp_path.iterdir()
    }
