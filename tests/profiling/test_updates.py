"""A program whose optimizer changes nothing is told so."""

from dataclasses import replace

from autotune.profiling.later import doubts_of_updates
from autotune.source.edits import Place
from tests import builders


def test_an_optimizer_that_changes_nothing_is_told_with_its_place() -> None:
    seen = builders.seen()
    assert seen.optimizer is not None
    assert doubts_of_updates(seen) == ()
    places = replace(seen.places, optimizer=Place(path="/p/train.py", line=65))
    idle = replace(seen, optimizer=replace(seen.optimizer, idle=True), places=places)
    (found,) = doubts_of_updates(idle)
    assert found.name == "nothing is trained" and "built at train.py:65," in found.evidence
    assert doubts_of_updates(replace(seen, optimizer=None)) == ()
