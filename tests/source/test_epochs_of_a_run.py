"""How many epochs a run has at the most is read from its loop and its options."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.epochs import most_epochs
from autotune.source.program import parsed

PATH = "/p/train.py"
TRAINING = """
EPOCHS = 7
def main(args, count=3):
    {before}
    for epoch in {over}:
        for batch in {batches}:
            loss = model(batch)
            loss.backward()
            optimizer.step()
"""


def epochs(over: str, batches: str = "loader", before: str = "pass") -> int | None:
    text = TRAINING.format(over=over, batches=batches, before=before)
    lines = text.splitlines()
    line = next(number for number, each in enumerate(lines, 1) if "backward" in each)
    program = parsed({PATH: text}, Places(backward=Place(path=PATH, line=line)), PATH)
    return most_epochs(program, {"epochs": 20})


@pytest.mark.parametrize(
    ("over", "found"),
    [
        ("range(args.epochs)", 20),
        ("trange(1, args.epochs)", 19),
        ("range(EPOCHS)", 7),
        ("range(5)", 5),
        ("range(count)", None),  # what it is given
        ("range(args.rounds)", None),
        ("range(0, 10, 2)", None),
        ("itertools.count()", None),
    ],
)
def test_it_is_told_by_the_range_of_the_loop(over: str, found: int | None) -> None:
    assert epochs(over) == found


def test_it_is_not_told_where_an_epoch_is_no_pass_over_a_loader_or_the_option_is_set_later() -> (
    None
):
    assert epochs("range(5)", batches="range(100)") is None
    assert epochs("range(args.epochs)", before="args.epochs = 3") is None
