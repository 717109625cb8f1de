"""Another order in later epochs, as workers that live on have it: no other samples, and no other
first epoch.
"""

from pathlib import Path

import pytest

from autotune.workload.setup import Setup
from tests.workload.programs import PLAIN, losses

STEPS_PER_EPOCH = 7


@pytest.mark.parametrize("own", ["", ", generator=torch.Generator().manual_seed(3)"])
def test_later_epochs_are_in_another_order_with_each_stream(tmp_path: Path, own: str) -> None:
    text = PLAIN.replace("shuffle=True", f"shuffle=True{own}")
    count = 3 * STEPS_PER_EPOCH
    plain = losses(text, tmp_path, count=count)
    first, again, other = (
        losses(text, tmp_path, count=count, setup=Setup(stream=stream, reorder=True))
        for stream in (1, 1, 2)
    )
    assert first == again
    for each in (first, other):
        assert each[:STEPS_PER_EPOCH] == plain[:STEPS_PER_EPOCH]
        assert each[STEPS_PER_EPOCH] != plain[STEPS_PER_EPOCH]
    assert first[STEPS_PER_EPOCH] != other[STEPS_PER_EPOCH]


def test_workers_that_live_on_have_another_order_from_the_second_epoch_on(tmp_path: Path) -> None:
    # What the control is for: torch draws a seed for the workers of each epoch, unless they stay.
    workers = PLAIN.replace("shuffle=True", "shuffle=True, num_workers=1")
    living_on = workers.replace("num_workers=1", "num_workers=1, persistent_workers=True")
    anew, staying = (losses(text, tmp_path, count=9) for text in (workers, living_on))
    assert anew[:STEPS_PER_EPOCH] == staying[:STEPS_PER_EPOCH]
    assert anew[STEPS_PER_EPOCH] != staying[STEPS_PER_EPOCH]
