import json
from pathlib import Path

import pytest

from tests.bench import delivered
from tests.bench.contestants import EXAMPLES
from tests.bench.delivered import ORIGINAL, RIVAL, TUNED, Claim, compare, summary
from tests.bench.rival import Answer
from tests.bench.stopwatch import Timing

PHOTOS = EXAMPLES[0]
RATIO = {"estimate": 1.5, "low": 1.4, "high": 1.6}


def runs(samples_per_second: float, count: int = 2) -> list[Timing]:
    """Runs that warm up for an epoch and train one more."""
    seconds = 1500 / samples_per_second
    marks = ((5.0, 1500), (5.0 + seconds, 3000))
    run = Timing(
        wall_seconds=5.0 + seconds, own_cores=1.0, other_cores=0.0, stolen_cores=0.0, marks=marks
    )
    return [run] * count


def result(outcome: str = "faster", delivered: object = None) -> dict:
    return {
        "verdict": {
            "outcome": outcome,
            "reason": "",
            "speedup": {**RATIO, "estimate": 1.7},
            "delivered": delivered,
            "config": {},
        },
        "cost": {"seconds": 60.0, "break_even_steps": 100},
    }


def test_the_claim_is_that_of_what_was_handed_back():
    assert Claim.of(result(delivered={"speedup": RATIO})).speedup == 1.5


def test_who_finds_nothing_claims_no_gain():
    assert Claim.of(result("no_gain", {"speedup": RATIO})).speedup == 1.0


def test_who_is_faster_without_a_patch_delivers_nothing(tmp_path, monkeypatch):
    def run(command, **_):
        out = Path(command[command.index("--out") + 1])
        out.mkdir()
        (out / "result.json").write_text(json.dumps(result()))

    monkeypatch.setattr(delivered.subprocess, "run", run)
    claim = delivered.search(PHOTOS, tmp_path / ORIGINAL, "60s")
    assert (claim.outcome, claim.speedup) == (delivered.NOTHING_DELIVERED, 1.0)
    assert compare(PHOTOS, claim, None, {ORIGINAL: runs(100)})["claim_holds"] is None


@pytest.mark.parametrize("git", [False, True])
def test_a_search_finds_autotune_from_anywhere_and_needs_no_git(tmp_path, monkeypatch, git):
    ran = []

    def run(command, **given):
        ran.append((command[0], given))
        if "--out" in command:
            out = Path(command[command.index("--out") + 1])
            out.mkdir()
            (out / "result.json").write_text(json.dumps(result()))
            (out / "tuned.patch").write_text("a patch")
            (out / "photos_tuned.py").write_text("tuned")

    monkeypatch.setattr(delivered.subprocess, "run", run)
    monkeypatch.setattr(delivered.shutil, "which", lambda _: "/usr/bin/git" if git else None)
    monkeypatch.setenv("PYTHONPATH", "/tmp/site")
    root = tmp_path / ORIGINAL
    (root / "examples").mkdir(parents=True)
    (root / "examples" / "photos.py").write_text("as it is")
    delivered.under_version_control(root)
    assert delivered.search(PHOTOS, root, "60s").outcome == "faster"
    by_git = [given for program, given in ran if program == "git"]
    assert len(by_git) == (2 if git else 0)
    searched = next(given for program, given in ran if program != "git")
    assert searched["env"]["PYTHONPATH"] == f"{delivered.ROOT}{delivered.os.pathsep}/tmp/site"
    handed_back = tmp_path / TUNED / "examples" / "photos.py"
    assert handed_back.read_text() == ("as it is" if git else "tuned")


def test_a_claim_holds_within_five_percent_of_the_stopwatch():
    claim = Claim.of(result(delivered={"speedup": RATIO}))
    near = compare(PHOTOS, claim, None, {ORIGINAL: runs(100), TUNED: runs(145)})
    far = compare(PHOTOS, claim, None, {ORIGINAL: runs(100), TUNED: runs(140)})
    assert near["claim_holds"]
    assert not far["claim_holds"]


def test_who_hands_nothing_back_is_timed_as_the_original():
    claim = Claim.of(result("no_gain"))
    timings = {ORIGINAL: runs(100), RIVAL: runs(80)}
    facts = compare(PHOTOS, claim, Answer(found=True), timings)
    assert facts["speedup"]["estimate"] == 1.0
    assert facts["autotune_over_loadtune"]["estimate"] == pytest.approx(1.25)
    assert facts["pays_after_seconds"] is None
    assert facts["claim_holds"] is None


def test_a_search_is_worth_it_once_what_it_saves_is_what_it_cost():
    claim = Claim.of(result(delivered={"speedup": RATIO}))
    facts = compare(PHOTOS, claim, None, {ORIGINAL: runs(100), TUNED: runs(200)})
    assert facts["pays_after_seconds"] == pytest.approx(120.0)


def test_the_summary_is_the_geometric_mean_over_programs():
    def facts(ratio: float) -> dict:
        interval = (ratio * 0.9, ratio * 1.1)
        return {
            "claim_holds": True,
            "autotune_over_loadtune": {"estimate": ratio, "interval": interval},
        }

    found = summary({"one": facts(2.0), "other": facts(0.5)})
    assert found["autotune_over_loadtune"] == pytest.approx(1.0)
    assert found["slower_than_loadtune"] == ["other"]


def test_only_claimed_gains_are_counted_as_claims():
    found = summary(
        {
            name: {"claim_holds": holds}
            for name, holds in zip("abc", (True, False, None), strict=True)
        }
    )
    assert (found["claims_that_hold"], found["claims"]) == (1, 2)
