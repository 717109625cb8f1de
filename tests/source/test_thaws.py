"""A training that thaws weights after some epochs is told from one that has them from the start."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.thaws import replaced_later, thawed_later
from autotune.source.program import parsed

PROGRAM = """\
def build():
    model = make()
    for p in model.parameters():
        p.requires_grad = True
    return model

def enter(phase, model):
    for p in model.backbone.parameters():
        {entered}

def step(model, batch):
    model.critic.requires_grad_(True)
    model(batch).backward()

def main(batches, optimizer):
    model = build()
    for epoch in range(50):
        {epoch}
        for batch in batches:
            step(model, batch)
            optimizer.step()

def export(model):
    model.requires_grad_(True)
"""
THAWED = "p.requires_grad = True"
HELD = """for p in weights: p.requires_grad_(False)
        score(model)
        for p in weights: {}"""

WIDER = "model.requires_grad_(False); model.critic.requires_grad_(True)"


def found(*, entered: str = THAWED, epoch: str = "pass", passes: int = 1) -> str:
    text = PROGRAM.format(entered=entered, epoch=epoch)
    line = 1 + next(at for at, each in enumerate(text.splitlines()) if ".backward()" in each)
    place = Place(path="run.py", line=line)
    places = Places(backward=place, backwards=(place,) * passes)
    return thawed_later(parsed({"run.py": text}, places, "run.py"))


@pytest.mark.parametrize(
    ("entered", "epoch", "line"),
    [
        (THAWED, "if epoch == 10: enter(1, model)", 9),
        ("p.requires_grad_()", "enter(epoch // 10, model)", 9),
        ("p.requires_grad = phase > 0", "enter(epoch // 10, model)", 9),
        ("pass", "model.requires_grad_(epoch > 3)", 18),
        ("pass", "if epoch > 3: " + WIDER, 18),
        ("p.requires_grad = phase", "enter(False, model); enter(True, model)", 9),
    ],
)
def test_what_a_loop_over_epochs_thaws_is_found(entered: str, epoch: str, line: int) -> None:
    assert found(entered=entered, epoch=epoch) == f"run.py:{line}"


@pytest.mark.parametrize(
    ("entered", "epoch"),
    [
        (THAWED, "pass"),  # nobody calls it
        ("p.requires_grad = False", "if epoch == 10: enter(1, model)"),
        ("pass", "model.requires_grad_(requires_grad=False)"),
        ("pass", "points = drawn(); points.requires_grad = True"),
        ("pass", "points = drawn().requires_grad_()"),
        ("pass", HELD.format("p.requires_grad = True")),
        ("pass", HELD.format("p.requires_grad_(True)")),
        ("pass", WIDER),
        ("pass", "model.requires_grad_(False); score(model); model.requires_grad_(True)"),
        ("p.requires_grad = phase", "enter(False, model)"),
        ("pass", "model.train()\n        for x in held: x.requires_grad = True; model(x)"),
    ],
)
def test_what_is_done_before_in_each_step_or_never_is_none(entered: str, epoch: str) -> None:
    assert not found(entered=entered, epoch=epoch)


def test_a_gan_that_turns_its_models_on_and_off_has_none() -> None:
    assert not found(epoch="model.requires_grad_(True)", passes=2)


def test_a_program_that_was_not_seen_to_train_has_none() -> None:
    assert not thawed_later(parsed({"run.py": "model.requires_grad_(True)"}, Places(), "run.py"))


@pytest.mark.parametrize(
    ("entered", "epoch", "line"),
    [
        ("p.weight = nn.Parameter(p.weight[:8])", "enter(epoch, model)", 9),
        ("prune.ln_structured(p, 'weight', 0.2)", "enter(epoch, model)", 9),
        ("p.weight = nn.Parameter(p.weight[:8])", "pass", None),
        (THAWED, "enter(epoch, model)", None),
        ("code = nn.Parameter(torch.randn(8)); fitted(code)", "enter(epoch, model)", None),
        ("w = nn.Parameter(p.weight[:8]); p.weight = w", "enter(epoch, model)", 9),
        ("w = nn.Parameter(p.weight[:8]); setattr(p, 'w', w)", "enter(epoch, model)", 9),
        ("w = nn.Parameter(p.weight[:8]); return w", "enter(epoch, model)", 9),
    ],
)
def test_weights_that_are_put_in_place_of_others_are_found(
    entered: str, epoch: str, line: int | None
) -> None:
    text = PROGRAM.format(entered=entered, epoch=epoch)
    backward = 1 + next(at for at, each in enumerate(text.splitlines()) if ".backward()" in each)
    places = Places(backward=Place(path="run.py", line=backward))
    found = replaced_later(parsed({"run.py": text}, places, "run.py"))
    assert found == (f"run.py:{line}" if line else "")


MADE = """\
class Net:
    def __init__(self):
        self.begin(3)

    def begin(self, size):
        self.w = nn.Parameter(torch.ones(size))
"""


@pytest.mark.parametrize(
    ("epoch", "line"), [("model = Net()", None), ("model = Net(); model.begin(5)", 6)]
)
def test_a_model_that_is_made_while_others_train_has_weights_of_its_own(
    epoch: str, line: int | None
) -> None:
    text = MADE + PROGRAM.format(entered="pass", epoch=epoch)
    backward = 1 + next(at for at, each in enumerate(text.splitlines()) if ".backward()" in each)
    places = Places(backward=Place(path="run.py", line=backward))
    found = replaced_later(parsed({"run.py": text}, places, "run.py"))
    assert found == (f"run.py:{line}" if line else "")
