"""A run of several trainings of other sizes is told from one of the same training again."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.sweeps import swept_sizes
from autotune.source.program import parsed

PROGRAM = """\
def fit(hidden, seed=0, lr=0.1):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, hidden), nn.Linear(hidden, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(9):
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    return loss

{runs}
"""
INLINE = """\
for {turn}:
    model = Net({size})
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(9):
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
"""


def found(text: str) -> str:
    lines = text.splitlines()
    backward, optimizer = (
        Place(path="run.py", line=1 + next(n for n, line in enumerate(lines) if sign in line))
        for sign in (".backward()", "Adam(")
    )
    places = Places(backward=backward, optimizer=optimizer)
    return swept_sizes(parsed({"run.py": text}, places, "run.py"))


@pytest.mark.parametrize(
    "runs",
    [
        "for width in (32, 2048): fit(width)",
        "results = {each: fit(each) for each in (32, 2048)}",
        "losses = [fit(hidden=each, seed=1) for each in args.widths]",
        "for number, (width, lr) in enumerate(grid): fit(width, lr=lr)",
        "for width in '32,2048'.split(','): fit(int(width))",
    ],
)
def test_a_function_that_trains_another_size_each_time_is_found(runs: str) -> None:
    assert found(PROGRAM.format(runs=runs)) == "run.py:12"


@pytest.mark.parametrize(
    "runs",
    [
        "fit(64)",
        "for each in range(5): fit(64, each)",
        "for rate in (0.1, 0.01): fit(64, lr=rate)",
        "for seed in range(3): fit(64, seed)",
        "for each in (0.1, 0.01): fit(64, lr=each)",
        "for width in (32, 64): print(width)",
        "for dropout in (0.1, 0.5): fit(dropout)",
        "for client in chosen: fit(shards[client])",
        "for learned, tried in folds.split(rows): fit(learned)",
    ],
)
def test_the_same_size_again_is_none(runs: str) -> None:
    assert found(PROGRAM.format(runs=runs)) == ""


def test_one_that_stands_in_the_loop_is_found() -> None:
    assert found(INLINE.format(turn="depth in (2, 8)", size="depth")) == "run.py:1"
    assert found(INLINE.format(turn="fold in range(5)", size="fold")) == ""
    assert found(INLINE.format(turn="depth in (2, 8)", size="4")) == ""
    assert found(INLINE.format(turn="each in shards", size="each")) == "run.py:1"
    assert found(INLINE.format(turn="each in shards", size="4, Subset(data, each)")) == ""
    assert found(INLINE.format(turn="each in (2, 8)", size="4, Path(f'runs/{each}')")) == ""
