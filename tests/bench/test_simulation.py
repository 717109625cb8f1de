import json
import random
from functools import partial
from pathlib import Path

import pytest

from tests.bench.simulation import (
    DEFAULT_PLAN,
    NOISES,
    Noise,
    Recorded,
    judged,
    machine,
    process_pair,
)


def recorded(folder: Path) -> Path:
    """Two comparisons of identical programs, and one of others, as honesty writes them."""
    quiet = {"baseline": [(100, 1.0)] * 4, "tuned": [(101, 1.0)] * 4}
    lines = [
        {"case": "A/A", "rounds": [2, 2], "turns": quiet},
        {"case": "A/A, half a core taken", "rounds": [4], "turns": quiet},
        {"case": "20 % faster", "rounds": [4], "turns": quiet},
    ]
    file = folder / "honesty.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


def test_only_identical_programs_are_drawn_from_what_was_recorded(tmp_path):
    source = Recorded.of(recorded(tmp_path), random.Random(0))
    assert [[len(turns) for turns in rounds] for rounds in source.comparisons] == [[2, 2], [4]]


def test_a_planted_speedup_is_put_on_what_was_recorded(tmp_path):
    source = Recorded.of(recorded(tmp_path), random.Random(0))
    drawn = [second[0] / first[0] for _ in range(20) for first, second in source.draw(1.2)]
    assert sorted({round(ratio, 3) for ratio in drawn}) == [1.188, 1.212]


@pytest.mark.parametrize("name", ["alike turns", "short bursts", "long bursts", "slowing down"])
def test_identical_programs_are_hardly_ever_told_apart_in(name):
    draw = partial(
        process_pair, turns=DEFAULT_PLAN.turns, noise=NOISES[name], chance=random.Random(0)
    )
    claims = [judged(1.0, DEFAULT_PLAN, draw)[0] for _ in range(300)]
    assert sum(claim != "" for claim in claims) / 300 <= 0.08


def test_bursts_take_their_share_of_the_time():
    speeds = machine(Noise(bursts=0.3, burst_turns=4.0), random.Random(0))
    slow = sum(next(speeds) < 1 for _ in range(20_000)) / 20_000
    assert slow == pytest.approx(0.3, abs=0.03)


def test_a_machine_that_slows_down_favours_nobody():
    noise = Noise(turn=0.0, process=0.0, stalls=0.0, drift=0.02)
    pairs = process_pair(1.0, (5, 5), noise, random.Random(0))
    first, second = (sum(pair[who][0] for pair in pairs) for who in (0, 1))
    assert second / first == pytest.approx(1.0, abs=0.01)
