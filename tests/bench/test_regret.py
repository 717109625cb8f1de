"""Replaying strategies on tables that were written for them."""

import itertools
from pathlib import Path

import pytest

from tests.bench import regret

COLUMNS = (
    "nw,opt,precision,samples_per_s,samples_per_s_medstep,wall_s,f_data,f_fwdbwd,f_opt,f_data_cpu"
)
WORKERS, OPTIMIZERS, FORMATS = (0, 1, 2), ("forloop", "foreach", "fused"), ("fp32", "bf16")


@pytest.fixture
def table(tmp_path: Path) -> regret.Table:
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
    return regret.read(path)


def test_rows_without_a_rate_are_none(table: regret.Table) -> None:
    assert table.own == {"num_workers": 0, "optimizer": "forloop", "precision": "fp32"}
    assert table.row({"num_workers": 1, "precision": "bf16"}) is None
    assert table.best == pytest.approx(100 / 0.42, rel=1e-3)


@pytest.mark.parametrize("strategy", ["profile", "tpe", "coordinate"])
def test_a_table_may_have_holes(strategy: str, table: regret.Table) -> None:
    found = regret.replay(strategy, table, 0.0, 0)
    assert found.regret[12] < 0.2  # one knob after another stays with one worker
    if strategy == "profile":
        assert found.regret[5] < 0.03
