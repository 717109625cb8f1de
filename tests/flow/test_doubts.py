"""What the doubts of a program are told by: its source, and what was seen of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import doubts
from autotune.workload.window import AS_IS
from tests import builders


@pytest.mark.parametrize(("others", "told"), [(1, True), (0, False)])
def test_passes_without_gradients_are_a_validation_where_there_is_another_loader(
    monkeypatch: pytest.MonkeyPatch, others: int, told: bool
) -> None:
    monkeypatch.setattr(doubts, "evaluated", lambda _: "")
    monkeypatch.setattr(doubts, "gone_over", lambda _: "train.py:7")
    seen: Any = builders.seen(other_loaders=others)
    ablation: Any = SimpleNamespace(seen=seen, warm=(), windows={AS_IS: (builders.window(9.0),)})
    program: Any = object()
    found = doubts._doubts_of_validation(program, ablation)
    assert ("run a model between steps without training it (train.py:7)" in str(found)) is told
