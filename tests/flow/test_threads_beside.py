"""A thread that works at a pace of its own is told from one that hands over by a queue."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.flow.judging import thread_beside
from autotune.workload.found import BESIDE, BusyLine
from autotune.workload.program.target import load_target
from tests import builders


@pytest.mark.parametrize(
    ("text", "phase", "loader", "told"),
    [
        ("memory.put(state)\n", BESIDE, False, "act, train.py:1"),
        ("ready = queue.Queue(maxsize=4)\n", BESIDE, False, ""),
        ("memory[at] = state\n", BESIDE, True, ""),  # it draws the batches
        ("memory[at] = state\n", "forward", False, ""),
    ],
)
def test_only_one_without_a_queue_is_told(
    tmp_path: Path, text: str, phase: str, loader: bool, told: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(text)
    line = BusyLine(phase=phase, path=str(script), line=1, function="act", share=0.5)
    drawn = replace(builders.seen().loader, threaded=True) if loader else None
    seen = replace(builders.seen(), loader=drawn)
    profiled = replace(builders.profile(), lines=(line,), seen=seen)
    assert thread_beside(load_target(script), profiled) == told
