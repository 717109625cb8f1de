"""Tables as others write them."""

import itertools
from pathlib import Path

import pytest

from tests.bench import regret
from tests.bench.foreknowledge import costs_of, expected_of
from tests.bench.grids import NoGridError, Table, read


def table(folder: Path, text: str) -> Table:
    path = folder / "grid.csv"
    path.write_text(text)
    return read(path)


def test_the_users_own_setting_is_a_row(tmp_path: Path) -> None:
    found = table(tmp_path, "nw,pf,samples_per_s\n1,1,20\n0,2,10\n1,2,21\n1,4,22\n2,4,\n")
    assert found.own == {"num_workers": 0, "prefetch_factor": 2}
    assert found.rows[frozenset()].rate == 10


def test_what_means_nothing_without_workers_may_be_blank(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        "nw,pf,persistent,samples_per_s\n0,,,10\n1,2,False,20\n1,4,False,21\n1,2,True,22\n",
    )
    assert found.own == {"num_workers": 0, "prefetch_factor": 2, "persistent_workers": False}
    assert found.choices["prefetch_factor"] == (2, 4)
    assert found.key({"prefetch_factor": 4, "persistent_workers": True}) == frozenset()
    assert found.rows[found.key({"num_workers": 1, "prefetch_factor": 4})].rate == 21
    assert found.key({"num_workers": 1, "prefetch_factor": 4, "persistent_workers": True}) not in (
        found.rows
    )


def test_a_switch_may_be_off_by_being_blank(tmp_path: Path) -> None:
    found = table(tmp_path, "nw,cache,samples_per_s\n0,ram,12\n0,,10\n1,,20\n1,ram,21\n")
    assert found.own == {"num_workers": 0, "cache": ""}
    assert found.choices["cache"] == ("", "ram")


def test_numbers_may_be_written_as_floats(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        ",nw,thr,mb,samples_per_s\n0,10.0,2.0,32.0,30\n1,2.0,1.0,24.0,20\n2,2.0,2.0,24.0,21\n"
        "3,2.0,2.0,32.0,10.5\n4,10.0,1.0,16.0,31\n",
    )
    assert found.own == {"num_workers": 2, "threads": 2, "micro_batch": 32}
    assert found.choices["micro_batch"] == (32, 24, 16)
    assert found.batch == 32


def test_a_column_that_only_numbers_the_rows_is_no_knob(tmp_path: Path) -> None:
    found = table(tmp_path, "run,nw,samples_per_s\n7,0,10\n8,1,20\n9,2,30\n")
    assert list(found.choices) == ["num_workers"]


def test_micro_batches_that_do_not_divide_are_rows_of_their_own(tmp_path: Path) -> None:
    found = table(tmp_path, "mb,samples_per_s\n32,1\n24,2\n16,3\n12,4\n8,5\n")
    assert [row.rate for row in found.rows.values()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("failed", ["", "nan", "OOM", "0", "-1", "inf", "None"])
def test_rows_without_a_rate_have_failed(tmp_path: Path, failed: str) -> None:
    found = table(tmp_path, f"nw,samples_per_s\n0,10\n1,{failed}\n2,15\n")
    assert len(found.rows) == 2
    assert found.best == 15
    assert found.choices["num_workers"] == (0, 1, 2)


def test_one_measured_several_times_is_one(tmp_path: Path) -> None:
    found = table(tmp_path, "nw,samples_per_s,wall_s\n0,10,1\n1,15,\n1,17,2\n")
    assert found.best == 16
    assert [row.seconds for row in found.rows.values()] == [1, 2]


def test_what_a_table_does_not_say_is_not_needed(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        "nw,opt,amp,ckpt,thr,unheard_of,samples_per_s,wall_s,f_data,f_opt\n"
        "0,forloop,off,none,2,a,10,,nan,0.5\n1,sophia,on,some,1,b,20,,,\n"
        "1,fused,on,1,1,a,25,,,\n2,fused,off,none,1,b,22,,,\n",
    )
    costs = costs_of(found)
    assert costs.optimizer == pytest.approx(0.05)
    assert costs.loader == pytest.approx(costs.compute)
    assert {name for (name, _), _ in expected_of(found)} == set(found.own) - {
        "num_workers",
        "threads",
    }
    replayed = regret.replay("profile", found, 0.0, 0)
    assert replayed.regret[3] == 0
    assert replayed.seconds_to_close is None


def test_workers_of_the_users_own_have_a_cost_that_is_not_what_is_waited_for(
    tmp_path: Path,
) -> None:
    text = "nw,samples_per_s,f_data,f_fwdbwd,f_opt,f_data_cpu\n2,100,0.4,0.5,0.1,0.01\n4,150,,,,\n"
    assert costs_of(table(tmp_path, text)).loader == pytest.approx(2 / 100)


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("thr,samples_per_s\n1,1\n2,2\n", 2),
        ("thr,samples_per_s\n1,1\n4,2\n", 4),
        ("thr,samples_per_s,cores_main\n1,1,1\n4,2,1.96\n", 2),
        ("thr,samples_per_s,cores\n1,1,8\n4,2,8\n", 8),
    ],
)
def test_a_table_may_say_how_many_processors_there_are(
    tmp_path: Path, text: str, cores: int
) -> None:
    assert costs_of(table(tmp_path, text)).cores == cores


@pytest.mark.parametrize(
    "text", ["", "nw,rate\n0,1\n", "nw,samples_per_s\n0,\n", "samples_per_s\n1\n"]
)
def test_a_file_without_a_grid_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(NoGridError, match="no knobs"):
        table(tmp_path, text)


def test_a_switch_of_the_loader_is_learned_from_whatever_its_name(tmp_path: Path) -> None:
    """One row with it on shows what it does in the others."""
    lines = ["nw,thr,opt,zoom,samples_per_s,wall_s,f_data,f_fwdbwd,f_opt,f_data_cpu"]
    for workers, threads, optimizer, zoom in itertools.product(
        (0, 1, 2), (2, 1), ("forloop", "fused"), ("off", "on")
    ):
        loading = 0.9 / (3 if zoom == "on" else 1)
        training = 0.08 if optimizer == "forloop" else 0.06
        step = max(loading / workers, training) if workers else loading + training
        rate = 100 / step / (1.02 if threads == 1 else 1)
        lines.append(f"{workers},{threads},{optimizer},{zoom},{rate},1,0.9,0.06,0.02,0.1")
    found = table(tmp_path, "\n".join(lines) + "\n")
    assert regret.replay("profile", found, 0.0, 0).regret[5] < 0.03
