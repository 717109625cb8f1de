"""Plain steps, which the hooks pass through with little Python, are counted as all others are."""

import textwrap
from pathlib import Path

import pytest
import torch

from autotune.workload.conversation import Report, RunWindow, Tell
from autotune.workload.live import DISCOVERY_STEPS, Live
from autotune.workload.seams import model
from autotune.workload.seen import Seen
from autotune.workload.steps.pace import LOSSES_READ
from autotune.workload.window import AS_IS, REPLAY_DEVICE, Window
from tests.workload.programs import HEAD, PLAIN, run, seen_of, steps, window_of


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
    "looked at without gradients": loop(
        """
if step % 2:
    with torch.no_grad(): model(x)
    continue
"""
        + STEP
    ),
    "weights updated by hand": loop(
        """
loss = criterion(model(x), y)
loss.backward()
with torch.no_grad():
    for weight in model.parameters():
        weight -= 0.01 * weight.grad
        weight.grad = None
"""
    ).replace("optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)", ""),
    "gradients taken, and weights updated, by hand": loop(
        """
loss = criterion(model(x), y)
gradients = torch.autograd.grad(loss, list(model.parameters()))
with torch.no_grad():
    for weight, gradient in zip(model.parameters(), gradients):
        weight -= 0.01 * gradient
"""
    ).replace("optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)", ""),
    "a scaler that comes in late": loop(
        """
if step == 4:
    scaler = torch.amp.GradScaler("cpu")
optimizer.zero_grad()
loss = criterion(model(x), y)
if scaler is None:
    loss.backward()
    optimizer.step()
else:
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
        before="scaler = None",
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


def test_only_batches_that_are_trained_on_count(tmp_path: Path) -> None:
    first, _, _, last = report(HABITS["looked at without gradients"], tmp_path)
    assert first.samples <= 32 * first.steps and last.samples <= 32 * last.steps


EPOCH = """
    with torch.no_grad():
        codes = torch.cat([model[0](x) for x, _ in loader])
"""


def test_a_pass_over_the_training_data_without_gradients_trains_on_none_of_it(
    tmp_path: Path,
) -> None:
    window = window_of(run(loop(STEP) + EPOCH, steps(9), steps(14), folder=tmp_path))
    assert (window.samples, window.validations) == (2 * 200, 2)


def test_batches_that_are_drawn_without_gradients_are_trained_on_all_the_same(
    tmp_path: Path,
) -> None:
    text = loop(
        STEP,
        before="""
        @torch.no_grad()
        def drawn(): yield from loader
        """,
    ).replace("enumerate(loader)", "enumerate(drawn())")
    window = window_of(run(text, steps(9), steps(14), folder=tmp_path))
    assert (window.samples, window.validations) == (2 * 200, 0)
    assert window.phases["data"] > 0


def test_what_is_replayed_is_not_the_incomplete_batch_of_an_epoch_of_two(tmp_path: Path) -> None:
    text = PLAIN.replace("batch_size=32", "batch_size=120")
    replay = RunWindow(seconds=0.0, steps=5, mode=REPLAY_DEVICE)
    reports = run(text, steps(3), Tell(), replay, folder=tmp_path)
    assert seen_of(reports).batch[0] == "float32[120, 8]"
    assert window_of(reports).samples == 5 * 120


def test_a_program_that_goes_on_with_another_loader_is_followed(tmp_path: Path) -> None:
    text = loop(
        STEP + "if step > 4: break\n",
        before="other = DataLoader(dataset, batch_size=20, shuffle=True)",
    ).replace("range(50)", "range(2)")
    text += "for epoch in range(50):\n    for x, y in other:\n" + textwrap.indent(STEP, " " * 8)
    reports = run(text, steps(14), steps(20), Tell(), folder=tmp_path)
    window = window_of(reports)
    assert window.samples == 20 * 20 and not window.validations
    seen = seen_of(reports)
    assert seen.loader is not None and seen.loader.batch_size == 20
    assert seen.batch[0] == "float32[20, 8]"  # what a replay gives


def test_a_validation_loader_does_not_train_where_batches_are_kept(tmp_path: Path) -> None:
    text = loop(STEP + "if step > 4: break\n").replace("range(50)", "range(1)")
    text += textwrap.dedent("""
        kept = list(loader)
        validation = DataLoader(dataset, batch_size=100)
        for epoch in range(50):
            for x, y in kept:
        """) + textwrap.indent(STEP, " " * 8)
    text += textwrap.indent(
        textwrap.dedent("""
        model.eval()
        with torch.no_grad():
            for a, b in validation: criterion(model(a), b)
        model.train()
        """),
        "    ",
    )
    loader = seen_of(run(text, steps(14), steps(20), Tell(), folder=tmp_path)).loader
    assert loader is not None and loader.batch_size == 32


def test_the_optimizers_class_may_be_patched_later(tmp_path: Path) -> None:
    text = loop(
        STEP,
        before="""
        own = torch.optim.SGD.step
        def step(self, closure=None):
            with open("said", "a") as said: said.write("x")
            return own(self, closure)
        torch.optim.SGD.step = step
        """,
    )
    own = torch.optim.SGD.step
    try:
        run(text, steps(10), folder=tmp_path)
    finally:
        torch.optim.SGD.step = own  # type: ignore[method-assign]
    assert (tmp_path / "said").read_text() == "x" * 11


def test_steps_are_plain_once_all_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    note = model.note_training
    monkeypatch.setattr(model, "note_training", lambda *given: looked.append(1) or note(*given))
    run(PLAIN, steps(20), folder=tmp_path)
    assert len(looked) == DISCOVERY_STEPS
