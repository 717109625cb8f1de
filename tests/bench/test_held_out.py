"""What the planner misses of a grid, by rates that chose neither row."""

import itertools
from pathlib import Path

import pytest

from tests.bench.grids import read
from tests.bench.held_out import missed, rounds_of
from tests.bench.regret import replay

HEADER = "nw,opt,kind,samples_per_s,f_data,f_fwdbwd,f_opt,f_data_cpu,rates"
SETTINGS = list(itertools.product((0, 1, 2), ("forloop", "foreach", "fused"), "abcdefgh"))


def grid(folder: Path, rates: list[list[float]]) -> Path:
    lines = [HEADER]
    for (workers, optimizer, kind), each in zip(SETTINGS, rates, strict=True):
        middle, all_of_it = sorted(each)[1], ";".join(map(str, each))
        lines.append(f"{workers},{optimizer},{kind},{middle},0.3,0.5,0.2,0.3,{all_of_it}")
    path = folder / "grid.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_luckiest_of_equal_rows_is_not_missed(tmp_path: Path) -> None:
    """The last row was faster in two rounds and slower in the third, by chance."""
    rates = [[100.0, 100.0, 100.0] for _ in SETTINGS]
    rates[-1] = [130.0, 130.0, 70.0]
    table = read(grid(tmp_path, rates))
    assert replay("profile", table, 0.0, 0).regret[3] == pytest.approx(1 - 100 / 130)
    # It is the best of two rounds only where the third is held out, and there it is 70.
    assert missed(table)[3] == pytest.approx(1 - 300 / 270)


def test_a_row_that_is_always_faster_is_missed(tmp_path: Path) -> None:
    rates = [[100.0, 100.0, 100.0] for _ in SETTINGS]
    rates[-1] = [200.0, 200.0, 200.0]
    assert missed(read(grid(tmp_path, rates)))[3] == pytest.approx(0.5)


def test_rows_that_were_measured_once_hold_nothing_out(tmp_path: Path) -> None:
    path = grid(tmp_path, [[100.0, 100.0, 100.0] for _ in SETTINGS])
    path.write_text(path.read_text().replace("100.0;100.0;100.0", "100.0", 1))
    with pytest.raises(ValueError, match="as many"):
        rounds_of(read(path))
