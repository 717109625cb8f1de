"""Loaders that one line has built (a helper, a dict of them) are told apart where they live beside
each other; one that is made anew is the one that it was.
"""

import textwrap
from pathlib import Path

import pytest

from autotune.workload.conversation import RunWindow, Tell
from autotune.workload.setup import Setup
from autotune.workload.window import DRAIN, REPLAY_DEVICE, REPLAY_HOST, Window
from tests.workload.programs import HEAD, run, seen_of, steps, window_of

MADE = """
def make(data, size):
    return DataLoader(data, batch_size=size, drop_last=True)
def forever(loader):
    while True:
        yield from loader
few = TensorDataset(inputs[:60])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
def train(x, y, z):
    optimizer.zero_grad()
    (criterion(model(x), y) + model(z).square().mean()).backward()
    optimizer.step()
"""
STEP = """
optimizer.zero_grad()
criterion(model(x), y).backward()
optimizer.step()
"""
TWO = {
    "a helper": """
        pairs, singles = forever(make(dataset, 10)), forever(make(few, 20))
        for step in range(500):
            (x, y), (z,) = next(pairs), next(singles)
            train(x, y, z)
        """,
    "a dict": """
        both = {"a": DataLoader(dataset, batch_size=10), "b": DataLoader(few, batch_size=20)}
        given = {name: forever(loader) for name, loader in both.items()}
        for step in range(500):
            (x, y), (z,) = next(given["a"]), next(given["b"])
            train(x, y, z)
        """,
    "made anew each epoch": """
        for epoch in range(50):
            for (x, y), (z,) in zip(make(dataset, 10), forever(make(few, 20))):
                train(x, y, z)
        """,
    "made anew by name": """
        for epoch in range(50):
            pairs, singles = make(dataset, 10), make(few, 20)
            for (z,), (x, y) in zip(forever(singles), pairs):
                train(x, y, z)
        """,
    "made while the other is at work": """
        def lazily(*given):
            yield from forever(make(*given))
        pairs, singles = lazily(dataset, 10), lazily(few, 20)
        for step in range(500):
            (x, y), (z,) = next(pairs), next(singles)
            train(x, y, z)
        """,
    "made anew in turn": """
        pairs, singles = iter(make(dataset, 10)), iter(make(few, 20))
        for step in range(500):
            try:
                (z,) = next(singles)
            except StopIteration:
                singles = iter(make(few, 20))
                (z,) = next(singles)
            try:
                x, y = next(pairs)
            except StopIteration:
                pairs = iter(make(dataset, 10))
                x, y = next(pairs)
            train(x, y, z)
        """,
}


def program(text: str) -> str:
    return HEAD + MADE + textwrap.dedent(text)


@pytest.mark.parametrize("habit", TWO)
def test_only_samples_of_the_longer_one_count(habit: str, tmp_path: Path) -> None:
    reports = run(program(TWO[habit]), steps(9), Tell(), steps(48), folder=tmp_path)
    windows = [each for each in reports if isinstance(each, Window)]
    seen = seen_of(reports)
    assert [window.samples for window in windows] == [9 * 10, 48 * 10]
    assert seen.loader is not None and (seen.loader.batch_size, seen.loader.beside) == (10, 1)
    assert seen.samples_per_step == 10


@pytest.mark.parametrize("mode", [REPLAY_HOST, REPLAY_DEVICE])
@pytest.mark.parametrize("before", [3, 47])  # in the first epoch, and in a later one
@pytest.mark.parametrize("habit", TWO)
def test_each_is_replayed_its_own_batch(habit: str, before: int, mode: str, tmp_path: Path) -> None:
    replay = RunWindow(seconds=0.0, steps=30, mode=mode)
    window = window_of(run(program(TWO[habit]), steps(before), replay, folder=tmp_path))
    assert (window.steps, window.samples) == (30, 30 * 10)


def test_the_other_is_never_given_a_part_of_its_batch(tmp_path: Path) -> None:
    text = program(TWO["a helper"])
    window = window_of(run(text, steps(5), setup=Setup(micro_batches=2), folder=tmp_path))
    assert window.steps == 5


@pytest.mark.parametrize(
    "given",
    [
        "for x, y in make(dataset, 20):",
        "loader = make(dataset, 20)\n    for x, y in loader:",
        "loaders.append(make(dataset, 20))\n    for x, y in loaders[-1]:",
        "for x, y in loaders[epoch]:",
        "for x, y in (next(iter(make(dataset, 20))) for _ in range(9)):",
    ],
)
def test_one_that_is_made_anew_counts_on(given: str, tmp_path: Path) -> None:
    made = "[make(dataset, 20) for _ in range(50)]" if "[epoch]" in given else "[]"
    text = program(f"loaders = {made}\nfor epoch in range(50):\n    {given}\n")
    text += textwrap.indent(STEP, "        ")
    reports = run(
        text,
        steps(23),
        RunWindow(seconds=0.0, steps=15, mode=REPLAY_DEVICE),
        RunWindow(seconds=0.0, mode=DRAIN),
        steps(31),
        Tell(),
        folder=tmp_path,
    )
    windows = [each for each in reports if isinstance(each, Window)]
    assert [window.samples for window in windows] == [23 * 20, 15 * 20, 20, 31 * 20]
    seen = seen_of(reports)
    assert seen.loader is not None and (seen.loader.batch_size, seen.loader.beside) == (20, 0)


def test_loaders_that_are_trained_on_in_turn_are_replayed_their_own(tmp_path: Path) -> None:
    text = program("""
        pairs, triples = make(dataset, 10), make(TensorDataset(inputs, inputs, targets), 10)
        for epoch in range(50):
            for number, (x, y) in enumerate(pairs):
                train(x, y, x)
                if number == 3: break
            for number, (x, z, y) in enumerate(triples):
                train(x, y, z)
                if number == 3: break
        """)
    for before in (2, 5, 9):
        replay = RunWindow(seconds=0.0, steps=9, mode=REPLAY_DEVICE)
        window = window_of(run(text, steps(before), replay, folder=tmp_path))
        assert (window.steps, window.samples) == (9, 90)


def test_a_validation_loader_of_the_same_line_does_not_train(tmp_path: Path) -> None:
    text = program("""
        for epoch in range(50):
            training, validation = make(dataset, 20), make(dataset, 50)
            for x, y in training:
                train(x, y, x)
            model.eval()
            with torch.no_grad():
                for x, y in validation: model(x)
            model.train()
        """)
    reports = run(text, steps(45), Tell(), folder=tmp_path)
    assert window_of(reports).samples == 45 * 20
    loader = seen_of(reports).loader
    assert loader is not None and (loader.batch_size, loader.beside) == (20, 0)
