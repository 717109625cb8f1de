"""Loader workers that the source rules out."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import workers_by_text
from autotune.source.edits import Place
from autotune.source.program import parsed
from autotune.trials.space import Space
from autotune.workload.program.target import SCRIPT
from tests import builders

TEXT = """\
class Rows:
    def __getitem__(self, at):
        if self.targets is None:
            {kept} = np.load("targets.npy")
        return self.rows[at], {kept}[at]

for epoch in range(9):
    for x, y in loader:
        loss_of(x, y).backward()
    np.save("{name}", revised(y))
"""


@pytest.mark.parametrize(
    ("kept", "name", "own", "workers", "living_on"),
    [
        ("self.targets", "targets.npy", 0, (0,), (False,)),
        ("self.targets", "targets.npy", 1, (1, 2), (False,)),
        ("targets", "targets.npy", 1, (0, 1, 2), (False, True)),
        ("self.targets", "scores.npy", 0, (0, 1, 2), (False, True)),
    ],
)
def test_a_file_that_is_written_between_epochs_is_read_as_the_program_reads_it(
    monkeypatch: pytest.MonkeyPatch,
    kept: str,
    name: str,
    own: int,
    workers: tuple[int, ...],
    living_on: tuple[bool, ...],
) -> None:
    seen = builders.seen()
    assert seen.loader is not None
    places = replace(seen.places, backward=Place(path="train.py", line=9))
    program = parsed({"train.py": TEXT.format(kept=kept, name=name)}, places, "train.py")
    monkeypatch.setattr(workers_by_text, "whole_program", lambda *_: program)
    profiled = builders.profile(seen=replace(seen, loader=replace(seen.loader, num_workers=own)))
    space = Space(
        choices={"num_workers": (0, 1, 2), "persistent_workers": (False, True)},
        own={"num_workers": own, "persistent_workers": False},
        skipped=(),
    )
    context: Any = SimpleNamespace(target=SimpleNamespace(kind=SCRIPT))
    found = workers_by_text.without_others_by_text(context, profiled, space)
    assert found.choices.get("num_workers", (own,)) == workers
    assert found.choices.get("persistent_workers", (False,)) == living_on
    said = " ".join(each.reason for each in found.skipped)
    assert ("targets.npy between its epochs (train.py:10)" in said) is (living_on == (False,))
