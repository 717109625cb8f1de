import json

import pytest

from tests.bench.honesty import made, tally, wilson


def line(case: str, claim: str) -> dict:
    return {"case": case, "claim": claim, "speedup": {"estimate": 1.0}, "seconds": 30.0}


def test_of_identical_programs_a_claimed_difference_is_wrong():
    claims = ("nothing", "nothing", "faster", "slower")
    found = tally([line("A/A", claim) for claim in claims])["A/A"]
    assert found["right"] == 0.5
    assert found["meets_bar"] is False


def test_of_a_planted_difference_only_the_right_claim_counts():
    claims = ("faster", "nothing", "nothing", "slower")
    found = tally([line("10 % faster", claim) for claim in claims])["10 % faster"]
    assert found["right"] == 0.25
    assert found["claims"] == {"faster": 1, "nothing": 2, "slower": 1}


def test_what_a_busy_machine_spoilt_says_nothing():
    spoilt = line("10 % faster", "not measured")
    found = line("10 % faster", "faster")
    assert tally([spoilt, found, found])["10 % faster"]["right"] == 1.0
    assert tally([spoilt, spoilt, found])["10 % faster"]["meets_bar"] is None


def test_a_neighbour_may_make_no_gain():
    case = "A/A, half a core taken"
    assert tally([line(case, "not measured"), line(case, "nothing")])[case]["meets_bar"]
    assert not tally([line(case, "faster")])[case]["meets_bar"]


def test_a_line_that_was_cut_off_is_made_again(tmp_path):
    out = tmp_path / "honesty.jsonl"
    whole = json.dumps(line("A/A", "nothing"))
    out.write_text(f"{whole}\n{whole[:20]}")
    assert len(made(out)) == 1
    assert made(tmp_path / "none") == []


def test_a_share_seen_in_few_is_hardly_known():
    low, high = wilson(0, 8)
    assert low == pytest.approx(0.0, abs=1e-9)
    assert high == pytest.approx(0.324, abs=0.001)
