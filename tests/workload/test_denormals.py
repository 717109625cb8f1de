"""Numbers that are denormal, and averages that will be, are told from those that are not."""

import subprocess
import sys
from pathlib import Path

import pytest

from autotune.workload.conversation import RunWindow, Watched
from autotune.workload.found import Denormals
from autotune.workload.window import AS_IS, DENORMAL, DENORMALS, ZEROED
from tests.workload.programs import run

# Rows 0 to 99 of a table are drawn in every step, a hundred others in the first step alone, and two
# hundred by chance: a quarter of them in each step.
TABLE = """
import torch
from torch import nn

torch.manual_seed(0)
table = nn.Embedding(400, 8)
optimizer = torch.optim.{optimizer}
average = "{average}"
for step in range(100_000):
    often, seldom = torch.arange(100), torch.randint(200, 400, (50,))
    rows = torch.arange(400) if step == 0 else torch.cat((often, seldom))
    optimizer.zero_grad()
    loss = (table(rows) - step).square().mean()
    loss.backward()
    optimizer.step()
    {then}
"""
ADAM = {"optimizer": "Adam(table.parameters())", "average": "exp_avg", "then": "pass"}
LOOK = RunWindow(seconds=0.0, steps=1, mode=DENORMALS)
FOLLOWED = (RunWindow(seconds=0.0, steps=50), LOOK, *[RunWindow(seconds=0.0, steps=20)] * 6, LOOK)


def looked_at(folder: Path, **words: str) -> Denormals:
    reports = run(TABLE.format(**{**ADAM, **words}), *FOLLOWED, folder=folder)
    watched = reports[-1]
    assert isinstance(watched, Watched) and isinstance(watched.found, Denormals)
    return watched.found


def test_rows_that_are_drawn_no_more_will_be_and_those_drawn_seldom_will_not(
    tmp_path: Path,
) -> None:
    found = looked_at(tmp_path)
    assert found.coming == pytest.approx(100 / 400, abs=0.02)
    assert 300 < found.after_steps + 171 < 900  # 0.9 to the power of 800 is 2e-37
    assert found.results == 0.0


@pytest.mark.parametrize(
    "optimizer",
    [
        "Adam(table.parameters(), weight_decay=0.01)",  # added to each gradient
        "SGD(table.parameters(), lr=0.01)",  # keeps no average
        "RMSprop(table.parameters())",  # of squares alone, which 800 steps leave much of
    ],
)
def test_others_keep_none_that_will_be(tmp_path: Path, optimizer: str) -> None:
    assert looked_at(tmp_path, optimizer=optimizer).coming == 0.0


def test_of_a_momentum_too(tmp_path: Path) -> None:
    found = looked_at(tmp_path, optimizer="SGD(table.parameters(), lr=0.01, momentum=0.9)")
    assert found.coming == pytest.approx(100 / 400, abs=0.02)


def test_what_operations_give_is_counted(tmp_path: Path) -> None:
    found = looked_at(tmp_path, then="torch.full((6_000,), 1e-20) * 1e-20")
    assert 0.1 < found.results < 0.9


def test_averages_are_held_for_a_window_and_then_as_the_program_has_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    modes = AS_IS, DENORMAL, ZEROED, DENORMAL, AS_IS
    commands = (
        *FOLLOWED,
        *(RunWindow(seconds=0.0, steps=1, mode=mode) for mode in modes),
    )
    then = """
    kept = optimizer.state[table.weight][average][100:200].abs()
    print("small", int(((kept > 0) & (kept < 1.17e-38)).sum()), "zero", int((kept == 0).sum()))
"""
    run(TABLE.format(**{**ADAM, "then": then}), *commands, folder=tmp_path)
    lines = [line.split() for line in capfd.readouterr().out.splitlines() if "small" in line]
    sizes = [(int(small), int(zero)) for _, small, _, zero in lines]
    assert sizes[-5:] == [(0, 0), (800, 0), (0, 800), (800, 0), (0, 0)]


FLUSHED = """
import torch
from autotune.knobs import setup_for
from autotune.workload.system.processor import flushes_denormals

torch.set_num_threads(2)
found = [flushes_denormals()]
for switch in setup_for({"flush_denormal": True}).process:
    switch()
found += [flushes_denormals(), bool((torch.full((1_000_000,), 1e-38) * 0.1).any())]
print(found)
"""


def test_all_threads_that_begin_later_take_them_for_zero() -> None:
    python = [sys.executable, "-c", FLUSHED]
    assert subprocess.run(python, capture_output=True, text=True, check=True).stdout == (
        "[False, True, False]\n"
    )
