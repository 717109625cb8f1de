"""A search that is stopped, in whatever way: nothing is left behind, nothing has changed, and the
same command goes on.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import psutil

from tests.measurement.test_process import eventually
from tests.trees import tree_hash

INTERRUPTED = 130
OPTIONS = ("--budget=60s", "--out=../out", "--knob=num_workers=2,3")

TRAIN = """\
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Store(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((8,), float(index)), index % 2


loader = DataLoader(Store(), batch_size=8, num_workers=1)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(1000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        open("weights.txt", "w").write(str(epoch))
"""


# The command, with a profile of a second: what it finds is not what these tests are about.
BRIEFLY = """\
from autotune.cli import main
from autotune.flow import context, profiling
profiling.PROFILE_SECONDS, context.WARM_SECONDS = (1.0, 1.0), (0.5, 0.5)
profiling.PROFILE_OF_LARGE = 0.0
main()
"""


class Search:
    """`autotune search` as a shell starts it, with a directory for temporary files of its own."""

    def __init__(self, place: Path) -> None:
        self.project, self.temporary = place / "the projéct", place / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.project.mkdir(exist_ok=True)
        (self.project / "train me.py").write_text(TRAIN)
        (self.project / "weights.txt").write_text("precious")
        self._before = tree_hash([self.project])
        self._process = subprocess.Popen(
            [sys.executable, "-c", BRIEFLY, "search", "train me.py", *OPTIONS],
            cwd=self.project,
            env={**os.environ, "TMPDIR": str(self.temporary), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def says(self, pattern: str) -> bool:
        """Read on until it says so; false where it ends before."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said += line
            if re.search(pattern, line):
                return True
        return False

    def stop(self, number: int, *, group: bool = False) -> int:
        """Send it a signal; how it exited, once everything that it had started is gone."""
        pid = self._process.pid
        started = psutil.Process(pid).children(recursive=True)
        (os.killpg if group else os.kill)(pid, number)
        self.says("no such line")
        status = self._process.wait()
        assert eventually(lambda: not any(each.is_running() for each in started))
        assert tree_hash([self.project]) == self._before
        return status

    def scratch(self) -> list[str]:
        """Names of the searches' directories for what runs write."""
        return [path.name for path in self.temporary.rglob("search-*")]


def test_ctrl_c_at_the_start_leaves_nothing_behind(tmp_path: Path) -> None:
    with Search(tmp_path) as search:
        assert search.says("^Starting the program"), search.said
        assert search.stop(signal.SIGINT, group=True) == INTERRUPTED
    assert "the same command has them" in search.said and "Traceback" not in search.said
    assert not search.scratch()


def test_a_search_that_was_killed_is_cleaned_up_after_and_goes_on(tmp_path: Path) -> None:
    with Search(tmp_path) as killed:
        assert killed.says("as it is"), killed.said  # the first trial of other settings begins
        assert killed.stop(signal.SIGKILL) == -signal.SIGKILL
    left = killed.scratch()
    with Search(tmp_path) as search:
        assert search.says("^Starting the program"), search.said
        assert not set(search.scratch()) & set(left)
        assert search.says("^Going on after 1 earlier trial"), search.said
        assert search.stop(signal.SIGINT) == INTERRUPTED
    assert not search.scratch()
