"""A patched program is timed beside the program as it is, in turns."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.bench.patched import (
    OWN,
    PATCHED,
    Program,
    patched_from,
    programs,
    started,
    take_turns,
    timed,
)

SCRIPT = """import time
import torch
weight = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
while True:
    weight.sum().backward()
    optimizer.step()
    time.sleep(0.1)
"""
PATCH = """--- a/train.py
+++ b/train.py
@@ -5,4 +5,4 @@
 while True:
     weight.sum().backward()
     optimizer.step()
-    time.sleep(0.1)
+    time.sleep(0.005)
"""


@pytest.fixture
def searched(tmp_path: Path) -> Path:
    results, project = tmp_path / "results", tmp_path / "project"
    for folder in (results, project):
        folder.mkdir()
    (project / "train.py").write_text(SCRIPT)
    (results / "tuned.patch").write_text(PATCH)
    target = {"path": str(project / "train.py"), "arguments": [], "module": ""}
    (results / "result.json").write_text(json.dumps({"target": target}))
    return results


def test_both_take_their_turns_and_the_patched_one_is_faster(searched: Path, tmp_path: Path):
    work, project = tmp_path / "work", tmp_path / "project"
    work.mkdir()
    sources = programs(searched, project, project, sys.executable, work)
    assert (project / "train.py").read_text() == SCRIPT
    with (
        started(sources[0], work / OWN / "steps") as own,
        started(sources[1], work / PATCHED / "steps") as patched,
    ):
        for each in (own, patched):
            each.warm_up(0.1)
        stopped = len(own.stamps())
        patched.turn(0.5)
        assert len(own.stamps()) - stopped <= 1  # one may have been under way
        take_turns((own, patched), 2, 0.3)
    assert timed(own.windows)[1] < 10  # steps sleep for 100 ms
    assert timed(patched.windows)[1] > 1.5 * timed(own.windows)[1]  # for 5 ms
    for each in (own, patched):
        with pytest.raises(ProcessLookupError):
            os.kill(each.process.pid, 0)


def test_a_patch_is_of_the_script_s_folder_or_of_one_above_it(tmp_path: Path):
    script, patch = tmp_path / "project" / "train.py", tmp_path / "tuned.patch"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    patch.write_text(PATCH)
    assert patched_from(script, patch) == script.parent
    patch.write_text(PATCH.replace("/train.py", "/project/train.py"))
    assert patched_from(script, patch) == tmp_path
    patch.write_text(PATCH.replace("--- a/train.py", "--- /dev/null"))
    with pytest.raises(ValueError, match="changes no file"):
        patched_from(script, patch)


def test_a_program_that_takes_no_step_is_told(tmp_path: Path):
    program = Program(command=[sys.executable, "-c", ""], folder=tmp_path, environment=os.environ)
    with (
        started(program, tmp_path / "steps") as contestant,
        pytest.raises(RuntimeError, match="came to 0 steps"),
    ):
        contestant.warm_up(1.0)


def test_long_gaps_are_counted_apart():
    windows = [[0.0, 0.1, 0.2, 0.3], [9.0, 9.1, 11.1, 11.2]]
    steps, rate, without, gaps = timed(windows)
    assert (steps, gaps) == (6, 1)
    assert rate == pytest.approx(6 / 2.5)
    assert without == pytest.approx(10.0)


def test_windows_without_steps_are_no_timing():
    with pytest.raises(ValueError, match="two steps"):
        timed([[1.0], []])
