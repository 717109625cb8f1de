"""Which of several calls on a line is the one that was seen."""

import pytest

from autotune.source.edits import LoaderArgument, ModelStatement, OptimizerArgument, Place, Places
from tests.source.programs import PATH, rewritten

WORKERS = LoaderArgument(name="num_workers", code="4")
PINNED = LoaderArgument(name="pin_memory", code="True")
TWO = (
    "é, valid = 'ü', DataLoader(a, 8); train = DataLoader(b, 8, True)\n",
    "loaders = {'prüfen': DataLoader(a, 8), 'train': DataLoader(b, 8, True)}\n",
    "valid, train = (\n  DataLoader(a, 8), DataLoader(b, 8, True))\n",
)


def seen(text: str, call: str) -> Place:
    """The place of `call` in `text`, as a run tells it."""
    before = text[: text.index(call)]
    line = before.rpartition("\n")[2]
    return Place(path=PATH, line=1 + before.count("\n"), column=len(line.encode()))


@pytest.mark.parametrize("text", TWO)
def test_of_two_loaders_on_a_line_the_one_that_trains_is_changed(text: str) -> None:
    places = Places(loader=seen(text, "DataLoader(b"))
    outcome = rewritten(text, WORKERS, PINNED, places=places)
    assert outcome.statuses == ["done", "done"], outcome.reason
    expected = "DataLoader(b, 8, True, num_workers=4, pin_memory=True)"
    assert outcome.text == text.replace("DataLoader(b, 8, True)", expected)


def test_a_column_moves_along_with_what_stands_before_it() -> None:
    text = "opt, valid, train = optim.SGD(p, 0.1), DataLoader(a, 8), DataLoader(b, 8)\n"
    places = Places(optimizer=seen(text, "optim.SGD"), loader=seen(text, "DataLoader(b"))
    foreach = OptimizerArgument(name="foreach", code="True")
    outcome = rewritten(text, foreach, WORKERS, PINNED, places=places)
    assert outcome.text == (
        "opt, valid, train = optim.SGD(p, 0.1, foreach=True), DataLoader(a, 8), "
        "DataLoader(b, 8, num_workers=4, pin_memory=True)\n"
    )


def test_where_no_call_begins_at_the_column_none_is_taken() -> None:
    text = TWO[1]
    for column in (None, 3):
        places = Places(loader=Place(path=PATH, line=1, column=column))
        assert "which of several calls" in rewritten(text, WORKERS, places=places).reason


def test_of_two_optimizers_to_choose_from_the_one_that_was_built_is_changed() -> None:
    text = "optimizer = optim.SGD(net.parameters(), 1) if sgd else optim.Adam(net.parameters())\n"
    places = Places(optimizer=seen(text, "optim.Adam"))
    fused = OptimizerArgument(name="fused", code="True")
    outcome = rewritten(text, ModelStatement(code="{model}.compile()"), fused, places=places)
    assert outcome.statuses == ["done", "done"], outcome.reason
    changed = text.replace("optim.Adam(net.parameters()", "optim.Adam(net.parameters(), fused=True")
    assert outcome.text == f"net.compile()\n{changed}"
