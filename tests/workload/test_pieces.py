"""A batch that is trained in pieces, with a step on each, counts as its pieces."""

import textwrap
from pathlib import Path

import pytest

from autotune.workload.conversation import RunWindow, Tell
from autotune.workload.window import REPLAY_DEVICE, Window
from tests.workload.programs import HEAD, run, seen_of, steps


def windows_of(inner: str, folder: Path) -> tuple[list[int], float]:
    """Samples of windows of 9 steps as it is, 9 replayed and 21 as it is, and a step's samples."""
    loop = """
        loader = DataLoader(dataset, batch_size=40, shuffle=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        for epoch in range(50):
            for x, y in loader:
                INNER
                    optimizer.zero_grad()
                    criterion(model(a), b).backward()
                    optimizer.step()
        """
    reports = run(
        HEAD + textwrap.dedent(loop).replace("INNER", inner),
        steps(9),
        RunWindow(seconds=0.0, steps=9, mode=REPLAY_DEVICE),
        steps(21),
        Tell(),
        folder=folder,
    )
    samples = [each.samples for each in reports if isinstance(each, Window)]
    return samples, seen_of(reports).samples_per_step


@pytest.mark.parametrize(("size", "a_step"), [(10, 10), (8, 8), (40, 40)])
def test_its_samples_are_those_of_the_pieces(size: int, a_step: int, tmp_path: Path) -> None:
    inner = f"for a, b in zip(x.split({size}), y.split({size})):"
    assert windows_of(inner, tmp_path) == ([9 * a_step, 9 * a_step, 21 * a_step], a_step)


def test_unequal_pieces_count_what_they_have(tmp_path: Path) -> None:
    samples, _ = windows_of("for a, b in zip(x.split(30), y.split(30)):", tmp_path)
    assert samples == [5 * 10 + 4 * 30, 4 * 10 + 5 * 30, 10 * 40 + 10]


def test_a_batch_that_is_trained_whole_again_counts_each_time(tmp_path: Path) -> None:
    assert windows_of("for a, b in 3 * [(x, y)]:", tmp_path) == ([9 * 40, 9 * 40, 21 * 40], 40)
