"""Plain steps, which the hooks pass through with little Python, are counted as all others are."""

import textwrap
from pathlib import Path

import pytest

from autotune.workload.conversation import Report, RunWindow, Tell
from autotune.workload.live import DISCOVERY_STEPS, Live
from autotune.workload.pace import LOSSES_READ
from autotune.workload.seams import model
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, REPLAY_DEVICE, Window
from tests.workload.programs import HEAD, PLAIN, run, steps, window_of


def loop(body: str, *, before: str = "") -> str:
    """A program whose training loop has `body`, after `before`."""
    start = """
        loader = DataLoader(dataset, batch_size=32, shuffle=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        """
    inner = textwrap.indent(textwrap.dedent(body), "        ")
    return (
        HEAD
        + textwrap.dedent(start + before)
        + "\nfor epoch in range(50):\n    for step, (x, y) in enumerate(loader):\n"
        + inner
    )


STEP = """
optimizer.zero_grad()
loss = criterion(model(x), y)
loss.backward()
optimizer.step()
"""
HABITS = {
    "plain": PLAIN,
    "validation at times": loop(
        STEP
        + """
if step % 3 == 2:
    model.eval()
    with torch.no_grad():
        for a, b in validation: criterion(model(a), b)
    model.train()
""",
        before="validation = DataLoader(dataset, batch_size=100)",
    ),
    "the training batch is evaluated": loop(
        """
model.eval()
with torch.no_grad(): model(x)
model.train()
"""
        + STEP
    ),
    "batches that are evaluated alone": loop(
        """
if step % 2:
    model.eval()
    with torch.no_grad(): model(x)
    model.train()
    continue
"""
        + STEP
    ),
    "accumulation": loop(
        """
loss = criterion(model(x), y)
loss.backward()
if step % 3 == 2:
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad(): model.eval()(x)
    model.train()
"""
    ),
    "two optimizers": loop(
        STEP
        + """
other.zero_grad()
criterion(second(x), y).backward()
other.step()
""",
        before="""
        second = nn.Linear(8, 2)
        other = torch.optim.SGD(second.parameters(), lr=1e-2)
        """,
    ),
    "two loaders": loop(
        """
a, b = next(iter(unlabelled))
optimizer.zero_grad()
loss = criterion(model(x), y) + 0.1 * model(a).square().mean()
loss.backward()
optimizer.step()
""",
        before="unlabelled = DataLoader(dataset, batch_size=16, shuffle=True)",
    ),
    "several losses": loop(
        """
optimizer.zero_grad()
criterion(model(x), y).backward()
(0.1 * model(x).square()).backward(torch.ones(len(x), 2))
optimizer.step()
"""
    ),
    "shapes that change": loop(STEP.replace("model(x), y", "model(x[: 8 + step]), y[: 8 + step]")),
    "named inputs": loop(
        STEP.replace("model(x), y", "model(given=x[: 8 + step]), y[: 8 + step]"),
        before="""
        class Named(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 2)
            def forward(self, *, given): return self.inner(given)
        model = Named()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        """,
    ),
    "a closure": loop(
        """
def closure():
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    return loss
optimizer.step(closure)
"""
    ),
    "gradients cleared by the model": loop(STEP.replace("optimizer.zero", "model.zero")),
}


def report(text: str, folder: Path) -> tuple[Window, Seen, Window, Window]:
    reports: list[Report] = run(
        text,
        steps(23),
        Tell(),
        RunWindow(seconds=0.0, steps=5, mode=REPLAY_DEVICE),
        RunWindow(seconds=0.0, steps=30, mode=AS_IS),
        folder=folder,
    )
    first, replayed, last = (each for each in reports if isinstance(each, Window))
    seen = next(each for each in reports if isinstance(each, Seen))
    return first, seen, replayed, last


@pytest.mark.parametrize("habit", HABITS)
def test_plain_steps_are_counted_as_all_others_are(
    habit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = report(HABITS[habit], tmp_path)
    monkeypatch.setattr(Live, "_is_plain", lambda live: False)
    expected = report(HABITS[habit], tmp_path)
    assert found[1] == expected[1]
    for window, other in zip((found[0], *found[2:]), (expected[0], *expected[2:]), strict=True):
        assert window.losses == other.losses
        assert (window.mode, window.steps, window.samples) == (
            other.mode,
            other.steps,
            other.samples,
        )
        assert window.phases.keys() == other.phases.keys()
        assert window.validations == other.validations


def test_a_run_that_nobody_asks_for_phases_counts_the_same(tmp_path: Path) -> None:
    split = window_of(run(PLAIN, steps(20), folder=tmp_path))
    whole = window_of(run(PLAIN, steps(20), phases=False, folder=tmp_path))
    assert split.phases and not whole.phases
    assert (whole.steps, whole.samples, whole.losses) == (split.steps, split.samples, split.losses)


def test_of_later_steps_one_loss_in_eight_is_read(tmp_path: Path) -> None:
    window = window_of(run(PLAIN, steps(300), folder=tmp_path))
    assert len(window.losses) == LOSSES_READ + 13  # of the steps after 200, 208, ... 296


def test_steps_are_plain_once_all_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    note = model._note_training
    monkeypatch.setattr(model, "_note_training", lambda *given: looked.append(1) or note(*given))
    run(PLAIN, steps(20), folder=tmp_path)
    assert len(looked) == DISCOVERY_STEPS
