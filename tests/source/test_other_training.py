"""Training loops that a run did not reach are found in the source."""

import textwrap

import pytest

from autotune.source.edits import Place
from autotune.source.loops.other_training import not_reached

TWO_PHASES = """\
def teach(net, feed, optimizer):
    for epoch in range(9):
        for x, y in feed:
            loss = loss_of(net(x), y)
            if scaler:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            optimizer.step()


def distil(net, feed, optimizer):
    for x, y in feed:
        loss_of(net(x), y).backward()
        optimizer.step()


def gradients(net, feed):
    for x, y in feed:
        loss_of(net(x), y).backward()


teach(net, feed, optimizer)
distil(net, feed, optimizer)
gradients(net, feed)
"""


def lines(*seen: int, text: str = TWO_PHASES) -> list[int]:
    places = [Place(path="run.py", line=line) for line in seen]
    return [each.line for each in not_reached({"run.py": text}, places, "run.py")]


@pytest.mark.parametrize(
    ("seen", "left"), [((6,), [14]), ((8,), [14]), ((14,), [6]), ((6, 14), [])]
)
def test_a_loop_that_trains_and_was_not_seen_is_named(
    seen: tuple[int, ...], left: list[int]
) -> None:
    assert lines(*seen) == left


def test_loops_that_follow_each_other_at_the_top_are_two() -> None:
    loop = "for x in {}:\n    loss(x).backward()\n    optimizer.step()\n"
    assert lines(2, text=loop.format("warm") + loop.format("real")) == [5]


def test_what_the_loops_call_does_not_tell_which_of_them_was_seen() -> None:
    library = Place(path="accelerate/accelerator.py", line=2100)
    assert not not_reached({"run.py": TWO_PHASES}, [library], "run.py")
    seen = [library, Place(path="run.py", line=6)]
    assert not_reached({"run.py": TWO_PHASES}, seen, "run.py")


def test_trainers_for_other_models_that_nothing_names_are_none_of_the_programs() -> None:
    step = "    def fit(self):\n        for x in self.feed:\n            loss(x).backward()\n"
    step += "            self.optimizer.step()\n"
    text = f"class Plain:\n{step}class Other:\n{step}"
    assert lines(4, text=text) == []
    assert lines(4, text=text + "Other().fit()\n") == [9]


METHODS = """\
class Solver:
    def train(self):
        for x in feed:
            loss_of(net(x)).backward()
            optimizer.step()

    def train_once(self):
        for x in feed:
            loss_of(net(x)).backward()
            optimizer.step()

solver = Solver()
solver.train()
"""


@pytest.mark.parametrize(
    ("more", "left"),
    [("", []), ("solver.train_once()", [9]), ("getattr(solver, 'train_once')()", [9])],
)
def test_a_method_that_nothing_names_does_not_come_later(more: str, left: list[int]) -> None:
    assert lines(4, text=METHODS + more) == left


@pytest.mark.parametrize(("main", "left"), [("run.py", []), ("net.py", [3])])
def test_what_a_file_runs_only_as_a_script_is_left_out_of_others(
    main: str, left: list[int]
) -> None:
    loop = "for x in feed:\n    loss(x).backward()\n    optimizer.step()\n"
    guarded = f"if __name__ == '__main__':\n{textwrap.indent(loop, '    ')}"
    sources = {"run.py": loop, "net.py": guarded}
    found = not_reached(sources, [Place(path="run.py", line=2)], main)
    assert [each.line for each in found] == left


def test_what_is_no_python_says_nothing() -> None:
    assert lines(1, text="%matplotlib inline") == []


@pytest.mark.parametrize(("ends", "left"), [("return", []), ("print(x)", [5])])
def test_a_branch_that_leaves_before_what_was_seen_does_not_come_later(
    ends: str, left: list[int]
) -> None:
    step = "loss(x).backward()\n            optimizer.step()\n"
    text = (
        "def main(args, feed):\n    if args.overfit:\n        x = next(feed)\n"
        f"        for _ in range(9):\n            {step}        {ends}\n"
        f"    for x in feed:\n        if x:\n            {step}"
    )
    assert lines(10, text=text) == left


CHOSEN = TWO_PHASES[: TWO_PHASES.index("teach(net, feed, optimizer)\n")]


@pytest.mark.parametrize(
    ("calls", "left"),
    [
        ("if gpu: distil(a)\nelse: teach(a)", []),
        ("if gpu: teach(a)\nelif old: distil(a)", []),
        ("def f():\n  if rl:\n    if gpu: distil(a)\n  else: teach(a)\nf()", []),
        ("def both(): teach(a)\nif gpu: distil(a)\nelse: both()", []),
        ("if gpu: train = distil\nelse: train = teach\nfor epoch in y: train(a)", []),
        ("if gpu: train = distil\nelse: train = teach\ntrain(a)\ndistil(a)", [14]),
        ("teach(a)", []),  # nothing calls the other
        ("train = distil if gpu else teach\nfor epoch in y: train(a)", []),
        ("KINDS = {'old': distil, 'new': teach}\nKINDS[kind](a)", []),
        ("KINDS = {'old': distil, 'new': teach}\nfor x in y: KINDS.get(kind)(x)", []),
        ("def f():\n  if old:\n    distil(a)\n    return\n  teach(a)\nf()", []),
        ("def f():\n  if new:\n    teach(a)\n    return\n  distil(a)\nf()", []),
        ("def f():\n  if no: pass\n  elif old:\n    distil(a)\n    return\n  teach(a)\nf()", []),
        ("for epoch in feed:\n  if kind == OLD: distil(a)\n  else: teach(a)", []),
        ("def f(kind):\n  for x in y:\n    if kind: distil(a)\n    else: teach(a)\nf(0)", []),
        ("if warm: distil(a)\nteach(a)", [14]),
        ("KINDS = {'old': distil, 'new': teach}\nfor kind in KINDS: KINDS[kind](a)", [14]),
        ("KINDS = {'old': distil, 'new': teach}\nKINDS['old'](a)\nKINDS['new'](a)", [14]),
        ("KINDS = {'old': distil, 'new': teach}\nfor f in KINDS.values(): f(a)", [14]),
        ("for kind in (0, 1):\n  train = distil if kind else teach\n  train(a)", [14]),
        ("def f(old):\n  if old: return distil(a)\n  teach(a)\nf(0)\nf(1)", [14]),
        ("if gpu: distil(a)\nelse: teach(a)\ndistil(a)", [14]),
        ("while True:\n  if kind: distil(a)\n  else: teach(a)\n  kind = 1", [14]),
        ("for phase in (0, 1):\n  if phase: distil(a)\n  else: teach(a)", [14]),
        ("def f(kind):\n  if kind: distil(a)\n  else: teach(a)\nf(0)\nf(1)", [14]),
        ("def g(): at.kind = 1\nfor x in y:\n  if at.kind: distil(a)\n  else: teach(a)", [14]),
    ],
)
def test_what_is_called_instead_of_what_was_seen_does_not_come_later(
    calls: str, left: list[int]
) -> None:
    assert lines(6, text=f"{CHOSEN}{calls}\n") == left
