"""A program is timed with its costs taken away, also one that ends before that is done."""

from autotune.measurement.ablation import _begin, ablate
from autotune.workload.window import AS_IS, DRAIN, REPLAY_DEVICE
from tests.measurement.conftest import Start
from tests.workload.programs import PLAIN


def test_a_program_is_timed_in_every_mode(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(50000)")
    ablation = ablate(lambda: start(text), seconds=1.0, cores=2, warm_seconds=1.0)
    assert set(ablation.windows) == {AS_IS, REPLAY_DEVICE, DRAIN}
    assert not ablation.ended


def test_a_program_that_ends_at_once_is_started_again_for_what_is_missing(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(3)")
    ablation = ablate(lambda: start(text), seconds=1.0, cores=2, warm_seconds=1.0)
    assert ablation.ended
    assert sum(window.steps for window in ablation.windows[AS_IS]) > 3
    assert DRAIN in ablation.windows


def test_a_program_that_fails_in_one_mode_is_timed_in_the_others(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(50000)").replace(
        "        optimizer.zero_grad()",
        """        if torch.equal(x, before):
            raise ValueError("the same batch twice")
        before = x
        optimizer.zero_grad()""",
    )
    text = text.replace("for epoch", "before = torch.zeros(())\nfor epoch", 1)
    ablation = ablate(lambda: start(text), seconds=1.0, cores=2, warm_seconds=1.0)
    assert set(ablation.windows) == {AS_IS, DRAIN}
    assert "the same batch twice" in ablation.reasons[REPLAY_DEVICE]
    assert DRAIN not in ablation.reasons


def test_of_a_program_that_ends_while_it_warms_up_nothing_counts_twice(start: Start) -> None:
    text = PLAIN.replace("range(50)", "range(3)")  # seven steps an epoch
    ablation = _begin(start(text), warm_seconds=60.0)
    assert ablation.ended and not ablation.warm
    assert sum(window.steps for window in ablation.windows[AS_IS]) == 3 * 7 - 1  # but the first
