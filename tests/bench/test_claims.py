"""What was told is held against what the stopwatch had, by program."""

import math
from pathlib import Path

import pytest

from tests.bench.claims import BY_ITSELF, IN_TURNS, Claim, claims, denied, scatter, summary

TOLD = """program\tsettings\thanded_back\tlow\thigh\tnot_in_the_patch
quern\tthreads=1\t1.5\t1.4\t1.6\t
seiche\tprecision=bf16\t1.2\t1.1\t1.3\t
ullage\t\t1.0\t0.9\t1.1\t
noctule\t\t\t\t\t
"""
TIMED = """program\tpair\tsource\tsteps\tsteps_per_second\twithout_long_gaps\tlong_gaps
quern\t0\town\t100\t9\t10\t1
quern\t0\tpatched\t100\t9\t10\t1
quern\t1\town\t100\t9\t10\t1
quern\t1\tpatched\t100\t39\t40\t1
quern\t2\town\t100\t9\t10\t1
seiche\t0\town\t100\t9\t10\t1
seiche\t0\tpatched\t100\t11\t12\t1
ullage\t0\town\t100\t9\t10\t1
ullage\t0\tpatched\t100\t11\t12\t1
"""


def test_a_claim_is_held_against_the_mean_of_its_pairs(tmp_path: Path) -> None:
    (tmp_path / "delivered_of_four.tsv").write_text(TOLD)
    (tmp_path / "steps_by_stopwatch.tsv").write_text(TIMED)
    found = claims(tmp_path)
    assert [(each.program, each.pairs) for each in found] == [("quern", 2), ("seiche", 1)]
    assert [each.timed for each in found] == pytest.approx([2.0, 1.2])
    assert [each.ratio for each in found] == pytest.approx([4 / 3, 1.0])
    said = summary(found, "all")
    assert said.startswith("all: 2 programs") and "below the interval 0, above 1" in said
    assert summary(found[:1], "with threads") == "with threads: 1"


def test_a_claim_is_denied_where_both_errors_do_not_explain_it() -> None:
    def told(name: str, *gains: float) -> Claim:
        return Claim(name, "", 1.5, 1.45, 1.55, gains)

    up, down = 1.5 * math.exp(0.1), 1.5 * math.exp(-0.1)
    several = told("several", 9.0, up, down, up, down)  # the first decided that there were more
    of_a_pair = scatter([several, told("once", 3.0)])
    assert of_a_pair == pytest.approx(0.2 / math.sqrt(3))
    # One pair may be off by 0.27, four by 0.14.
    once, far, often = told("once", 1.2), told("far", 1.1), told("often", 1.2, 1.2, 1.2, 1.2)
    assert denied([once, far, often], {BY_ITSELF: of_a_pair}) == [far, often]


def test_pairs_that_took_turns_count_before_those_one_after_another(tmp_path: Path) -> None:
    (tmp_path / "delivered_of_four.tsv").write_text(TOLD)
    (tmp_path / BY_ITSELF).write_text(TIMED)
    (tmp_path / IN_TURNS).write_text(TIMED.replace("seiche", "other").replace("quern\t2", "a\t2"))
    found = {each.program: each for each in claims(tmp_path)}
    assert {name: each.timed_in for name, each in found.items()} == {
        "quern": IN_TURNS,
        "seiche": BY_ITSELF,
    }
    assert scatter(list(found.values()), IN_TURNS) == pytest.approx(math.log(4) / math.sqrt(2))
    assert scatter(list(found.values()), BY_ITSELF) == 0.0
