"""Replaying strategies on tables that were written for them."""

import itertools
from pathlib import Path

import pytest

from tests.bench import regret
from tests.bench.grids import Table, read
from tests.bench.simulated_grids import write
from tests.bench.simulated_loops import Program
from tests.bench.simulated_programs import PROGRAMS, TRIED

COLUMNS = (
    "nw,opt,precision,samples_per_s,samples_per_s_medstep,wall_s,f_data,f_fwdbwd,f_opt,f_data_cpu"
)
WORKERS, OPTIMIZERS, FORMATS = (0, 1, 2), ("forloop", "foreach", "fused"), ("fp32", "bf16")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A loader that takes half of a step, an optimizer that `fused` makes faster; two workers with
    bf16 were not measured, one with it failed.
    """
    lines = [COLUMNS]
    for workers, optimizer, precision in itertools.product(WORKERS, OPTIMIZERS, FORMATS):
        if (workers, precision) == (2, "bf16"):
            continue
        training = 0.4 + {"forloop": 0.1, "foreach": 0.06, "fused": 0.02}[optimizer]
        loading = 0.5 / max(1, workers)
        rate = 100 / (max(training, loading) if workers else training + loading)
        figure = "" if (workers, precision) == (1, "bf16") else f"{rate:.2f}"
        lines.append(f"{workers},{optimizer},{precision},{figure},,1.5,0.5,0.4,0.1,0.4")
    path = tmp_path / "made.csv"
    path.write_text("\n".join(lines) + "\n")
    return read(path)


def test_rows_without_a_rate_are_none(table: Table) -> None:
    assert table.own == {"num_workers": 0, "optimizer": "forloop", "precision": "fp32"}
    assert table.key({"num_workers": 1, "precision": "bf16"}) not in table.rows
    assert table.best == pytest.approx(100 / 0.42, rel=1e-3)


@pytest.mark.parametrize("strategy", ["profile", "tpe", "coordinate"])
def test_a_table_may_have_holes(strategy: str, table: Table) -> None:
    found = regret.replay(strategy, table, 0.0, 0)
    assert found.regret[12] < 0.2  # one knob after another stays with one worker
    if strategy == "profile":
        assert found.regret[5] < 0.03


def test_a_file_without_a_grid_takes_no_other_with_it(
    tmp_path: Path, table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"\xff\xfe nothing")
    paths = [bad, tmp_path / "missing.csv", tmp_path / "made.csv"]
    assert [each.name for each in regret.tables_of(paths)] == [table.name]
    said = capsys.readouterr()
    assert said.out == "" and "missing.csv" in said.err


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_simulated_programs_are_tuned_in_few_trials(tmp_path: Path, program: Program) -> None:
    """Other knobs, other names, blanks, failures, and scatter as measured tables have it."""
    (path,) = write(tmp_path, [program])
    found = regret.replay("profile", read(path), 0.0, 0)
    assert found.trials_to_close <= 8


def test_another_seed_makes_another_program_of_the_same_kind(tmp_path: Path) -> None:
    (one,) = write(tmp_path, TRIED[:1])
    (other,) = write(tmp_path, TRIED[:1], seed=1)
    first, second = read(one), read(other)
    assert first.choices == second.choices
    gains = [table.best / table.rows[frozenset()].rate for table in (first, second)]
    assert gains[0] != pytest.approx(gains[1], rel=0.01)
