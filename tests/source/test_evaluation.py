"""Evaluations between a training's steps are told from all else that is not training."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.evaluation import evaluated
from autotune.source.program import parsed

PROGRAM = """\
def train(model, batches, optimizer, args):
    model.train()
    {before}
    for x, y in batches:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

{function}

def main(args):
    model, batches, optimizer = build(args)
    for epoch in range(args.epochs):
        train(model, batches, optimizer, args)
        {epoch}
    {after}
"""
SCORE = """\
@torch.no_grad()
def score(net, data):
    net.eval()
    return sum(hits(net(x), y) for x, y in DataLoader(data, batch_size=80))
"""
SCORE_WITHIN = """\
def score(net, data):
    net.eval()
    with torch.inference_mode():
        return net(data)
"""


def found(*, before: str = "pass", function: str = "", epoch: str = "pass", after: str = "") -> str:
    text = PROGRAM.format(before=before, function=function, epoch=epoch, after=after)
    return found_in(text, backward=6)


def found_in(text: str, *, backward: int, forward: int | None = None) -> str:
    place = Place(path="run.py", line=backward)
    called = None if forward is None else Place(path="run.py", line=forward)
    places = Places(backward=place, backwards=(place,), forward=called)
    return evaluated(parsed({"run.py": text}, places, "run.py"))


@pytest.mark.parametrize("function", [SCORE, SCORE_WITHIN])
def test_what_an_epoch_calls_to_evaluate_is_found(function: str) -> None:
    every = "if epoch % args.every == 0: score(model, args.held_out)"
    assert found(function=function, epoch=every).startswith("run.py:1")


def test_a_model_that_is_evaluated_in_the_loop_and_trains_again_is_found() -> None:
    assert found(epoch="model.eval(); print(model(args.x)); model.train()") == "run.py:15"


def test_what_is_evaluated_before_the_loop_over_epochs_is_not_between_its_steps() -> None:
    drawn = "model.eval(); draw(model); model.train()"
    assert found(before=drawn) == "run.py:3"  # of each epoch
    text = PROGRAM.format(before="pass", function="", epoch="pass", after="pass")
    text = text.replace("build(args)", f"build(args); {drawn}")
    assert found_in(text, backward=6) == ""


def test_what_is_defined_beside_the_loop_and_called_in_it_is_found() -> None:
    beside = "def score(net):\n        net.eval()\n        net(args.x)\n        net.train()\n"
    text = PROGRAM.format(before="pass", function="", epoch="score(model)", after="pass")
    text = text.replace("    for epoch in", f"    {beside}    for epoch in")
    assert found_in(text, backward=6) == "run.py:14"


def test_what_warms_up_in_a_steps_own_forward_pass_is_not_evaluated() -> None:
    text = (
        "def predicted(net, x):\n    net.eval()\n    with torch.no_grad():\n        net(x[0])\n"
        "    net.train()\n    return net(x[1])\n"
        "for x in batches:\n    predicted(net, x).sum().backward()\n    optimizer.step()\n"
    )
    assert found_in(text, backward=8, forward=6) == ""


def test_what_is_evaluated_after_the_training_is_not_between_its_steps() -> None:
    assert found(function=SCORE, after="score(model, args.held_out)") == ""


@pytest.mark.parametrize(
    "before", ["for m in norms(model): m.eval()", "teacher.eval(); freeze(teacher)"]
)
def test_layers_kept_as_they_are_and_teachers_are_not_evaluated(before: str) -> None:
    assert found(before=before) == ""


def test_of_methods_with_one_name_that_in_the_file_that_trains_is_named() -> None:
    other = SCORE.replace("def score(net", "def score(self, net")
    text = PROGRAM.format(
        before="pass", function=SCORE, epoch="score(model, args.held_out)", after="pass"
    )
    sources = {"another.py": other, "run.py": text}
    place = Place(path="run.py", line=6)
    places = Places(backward=place, backwards=(place,))
    assert evaluated(parsed(sources, places, "run.py")).startswith("run.py:")


STEP = """\
def draw(net, judge, x):
    judge.eval()
    BETWEEN
    criterion(judge(net(x))).backward()
    optimizer.step()

for x in batches:
    draw(net, judge, x)
    judge.train()
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (STEP, ""),
        (STEP.replace("    judge.eval()\n", "    if late:\n        judge.eval()\n"), "run.py:3"),
        (STEP.replace("BETWEEN", "judge.train()"), "run.py:2"),
        (STEP.replace("    BETWEEN\n    crit", "    for x in x:\n        crit"), "run.py:2"),
    ],
)
def test_a_step_that_has_another_model_in_evaluation_evaluates_none(text: str, line: str) -> None:
    text = text.replace("BETWEEN", "pass")
    backward = next(i for i, each in enumerate(text.splitlines(), 1) if "backward" in each)
    assert found_in(text, backward=backward) == line


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("if args.fixed:\n        model.eval()\n    else:\n        model.train()", ""),
        ("model.eval() if args.fixed else model.train()", ""),
        ("if args.fixed:\n        model.eval()\n        score(model)\n    else: model.train()", 4),
        ("model.eval() if args.fixed else model.train()\n    if args.fixed: return", 3),
    ],
)
def test_an_epoch_that_trains_in_either_mode_evaluates_nothing(before: str, line: int) -> None:
    assert found(before=before) == (f"run.py:{line}" if line else "")


def test_an_epoch_that_trains_in_one_of_two_modes_evaluates_in_the_other() -> None:
    text = PROGRAM.format(
        before="model.train() if args.learn else model.eval()", function="", epoch="", after=""
    )
    once = text.replace("        loss.backward()", "        if args.learn: loss.backward()")
    assert found_in(once, backward=6) == "run.py:3"


@pytest.mark.parametrize(("of", "line"), [("self", ""), ("self.model", "run.py:4")])
def test_a_modules_own_forward_pass_evaluates_nothing(of: str, line: str) -> None:
    text = (
        "class Frozen(nn.Module):\n    def forward(self, x):\n        with torch.no_grad():\n"
        f"            {of}.eval()\n            return self.model(x)\n"
        "for x in batches:\n    frozen.forward(x)\n    net(x).backward()\n    optimizer.step()\n"
    )
    assert found_in(text, backward=8) == line
