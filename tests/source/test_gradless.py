"""A validation that puts nothing into evaluation is told by its passes without gradients."""

import textwrap

import pytest

from autotune.source.edits import OutputPlace, Place, Places
from autotune.source.loops.evaluation import evaluated, gone_over
from autotune.source.program import parsed

PROGRAM = """\
FUNCTION

def main(args):
    model, batches, held, optimizer = build(args)
    for epoch in range(args.epochs):
        for x, y in batches:
            STEP
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        EPOCH
    AFTER
"""
SCORE = """\
@torch.no_grad()
def score(net, data):
    return sum(hits(net(x), y) for x, y in data)
"""
WITHIN = """\
def score(net, data):
    right = 0
    with torch.inference_mode():
        for x, y in data:
            right += hits(net(x), y)
    return right
"""
AVERAGES = """\
@torch.no_grad()
def score(net, data):
    for average, weight in zip(net.averages, net.parameters()):
        average.lerp_(weight, 0.1)
"""
CALLED = "if epoch % 20 == 19: score(model, held)"
IN_PLACE = "with torch.no_grad(): print([model(x) for x, _ in held])"


def found(function: str = "", *, step: str = "pass", epoch: str = "pass", after: str = "") -> str:
    """The text of the line that is found; "" where none is."""
    text = textwrap.dedent(PROGRAM).replace("FUNCTION", function).replace("STEP", step)
    text = text.replace("EPOCH", epoch).replace("AFTER", after)
    lines = text.splitlines()
    called = next(at for at, line in enumerate(lines, 1) if "criterion(model" in line)
    place = Place(path="run.py", line=called + 1)
    output = OutputPlace(path="run.py", line=called, callee="model", tensors=True)
    places = Places(backward=place, backwards=(place,), outputs=(output,))
    program = parsed({"run.py": text}, places, "run.py")
    assert evaluated(program) == ""
    line = gone_over(program)
    return lines[int(line.removeprefix("run.py:")) - 1] if line else ""


@pytest.mark.parametrize("function", [SCORE, WITHIN])
def test_passes_of_a_function_without_gradients_that_an_epoch_calls_are_found(
    function: str,
) -> None:
    assert "hits(net(x), y)" in found(function, epoch=CALLED)


def test_passes_in_the_loop_over_epochs_itself_are_found() -> None:
    assert "print([model(x)" in found(epoch=IN_PLACE)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (SCORE, {"after": "score(model, held)"}),
        (SCORE, {"step": "score(model, held)", "epoch": CALLED}),
        (SCORE, {"epoch": "score(args.teacher, held)"}),
        (SCORE.replace("@torch.no_grad()", ""), {"epoch": CALLED}),
        (AVERAGES, {"epoch": CALLED}),
        ("", {"epoch": "with torch.no_grad(): print(model(args.x))"}),
    ],
    ids=["after it", "in each step", "another model", "gradients", "averages", "no loop"],
)
def test_what_else_is_done_without_gradients_is_not(function: str, given: dict[str, str]) -> None:
    assert found(function, **given) == ""
