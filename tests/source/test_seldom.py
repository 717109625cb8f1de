"""What a training does every so many steps is found, and comes sooner in a changed text."""

import textwrap
from collections.abc import Iterable

import numpy as np
import pytest
import torch

from autotune.source.edits import Place, Places
from autotune.source.loops.hurried import few, late
from autotune.source.loops.seldom import Seldom, seldom, sooner
from autotune.source.program import parsed

PATH = "/project/train.py"
FEW = "__import__('autotune.source.loops.hurried', fromlist=['few']).few"
LATE = "__import__('autotune.source.loops.hurried', fromlist=['late']).late"
WRAPPED = ": (n, x) in tqdm.tqdm(enumerate(list(data), 1), a)"
TRAIN = """
    def evaluate(step):
        if step % 50 == 0:
            pass

    class Net:
        def forward(self, x):
            for i, layer in enumerate(self.layers):
                if i % 4 == 0:
                    x = layer(x)
            return x

    def unrelated(n):
        return n % 10 == 0

    for epoch in range(9):
        for step, batch in enumerate(loader):
            net.forward(batch).mean().backward()
            CODE
        evaluate(step)
"""


def found_in(code: str, library: str = "") -> Seldom:
    """What is found with `code` in the loop, whose backward pass runs in a `library`."""
    text = textwrap.dedent(TRAIN).replace("CODE", code)
    line = next(n for n, at in enumerate(text.splitlines(), 1) if "backward" in at)
    own = Place(path=PATH, line=line)
    backward = Place(path=library, line=2861) if library else own
    places = Places(forward=own, backward=backward)
    return seldom(parsed({PATH: text}, places, PATH))[PATH]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("if step % 100 == 0: save()", {"step % 100"}),
        ("if (step + 1) % args.every == 0: save()", {"(step + 1) % args.every"}),
        ("if not step % every: save()", {"step % every"}),
        ("if args.every and step > 0 and step % args.every == 0: save()", {"step % args.every"}),
        ("due = step % n == n - 1", {"step % n"}),
        ("if step % 2 == 0: save()", set()),  # as soon as can be
        ("print('%d' % step)", set()),
        ("if '%d' % step == '5': save()", set()),
        ("step = (step * 7) % 100", set()),
    ],
)
def test_what_tells_that_it_is_time_is_found(code: str, found: set[str]) -> None:
    assert found_in(code).remainders == {"step % 50", *found}


def test_what_was_seen_to_run_counts_whatever_its_names_say() -> None:
    text = textwrap.dedent(TRAIN).replace("CODE", "clock.tick")
    text += "class Clock:\n    @property\n    def tick(self):\n        self.t += 1\n"
    text += "        return self.t > 299 or self.updates % 300 == 0\n"
    lines = text.splitlines()
    backward = next(n for n, at in enumerate(lines, 1) if "backward" in at)
    places = Places(backward=Place(path=PATH, line=backward))
    program, tick = parsed({PATH: text}, places, PATH), lines.index("    @property") + 1
    assert seldom(program)[PATH].remainders == {"step % 50"}
    seen = seldom(program, [Place(path=PATH, line=tick)])[PATH]
    assert seen.remainders == {"step % 50", "self.updates % 300"}
    assert not seen.stages, "that ends or gives something, and begins nothing"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("if step == 420: thaw()", {"step == 420"}),
        ("if on and not step + 1 >= args.warm: thaw()", {"step + 1 >= args.warm"}),
        ("if trainer.global_step > 9: thaw()", {"trainer.global_step > 9"}),
        ("seen += 1\n        if seen > most: thaw()", {"seen > most"}),
        ("seen = seen + 1\n        late = seen > most", {"seen > most"}),
        ("weight = 0.1 if epoch < 30 else 1.0", {"epoch < 30"}),
        ("if 700 <= step <= most: thaw()", {"700 <= step <= most"}),
        ("if 0 < step < 700: thaw()", set()),
        ("if step == 1: thaw()", set()),  # as soon as can be
        ("if loss > 420: thaw()", set()),
        ("if step == 10 % every: thaw()", set()),
        ("if step > most: break", set()),
        ("finished = step > most", set()),
        ("while step < most: step += 1", set()),
    ],
)
def test_what_begins_at_a_number_of_steps_is_found(code: str, found: set[str]) -> None:
    assert found_in(code).stages == found


@pytest.mark.parametrize("library", ["", "/site-packages/accelerate/accelerator.py"])
def test_the_loops_are_found(library: str) -> None:
    found = found_in("pass", library)
    assert found.inner == {": (step, batch) in enumerate(loader)"}
    assert found.outer == {": epoch in range(9)"}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("if step % 100 == 0: x", "if step % max(1, min(100, 2)) == 0: x"),
        (
            "if (step + 1) % (a * b) == 0: x\ny",
            "if (step + 1) % (max(1, min(a * b, 2))) == 0: x\ny",
        ),
        ("if s % n == 7: x", "if s % max(1, min(n, 2)) == 7 % max(1, min(n, 2)): x"),
        ("y = s % n == n - 1", "y = s % max(1, min(n, 2)) == max(1, min(n, 2)) - 1"),
        ("if other % 100 == 0: x", "if other % 100 == 0: x"),
        ("\ufeffif step % 100 == 0: x", "\ufeffif step % max(1, min(100, 2)) == 0: x"),
        ("if step % 100 == 0 x", "if step % 100 == 0 x"),
        ("for x in data: y", f"for x in {FEW}(data, 4, 2): y"),
        ("for a, b in (c for c in d): y", f"for a, b in {FEW}((c for c in d), 4, 2): y"),
        (
            "for n, x in tqdm.tqdm(enumerate(list(data), 1), a): y",
            f"for n, x in tqdm.tqdm(enumerate(list({FEW}(data, 4, 2)), 1), a): y",
        ),
        ("for x in tqdm(d for d in data): y", f"for x in {FEW}(tqdm(d for d in data), 4, 2): y"),
        (
            "for epoch in tqdm(range(9)):\n  for x in others: y",
            f"for epoch in tqdm({FEW}(range(9), 7, 6)):\n  for x in others: y",
        ),
        (
            "def train():\n  for x in range(a, b): y",
            f"def train():\n  for x in {FEW}(range(a, b), 4, 2): y",
        ),
        ("def make():\n  for x in range(a, b): y", "def make():\n  for x in range(a, b): y"),
        ("if step == 420: x", "if step == (2 if step == 2 else 420): x"),
        ("if (step + 1) == (a * b): x", "if (step + 1) == ((2 if step + 1 == 2 else a * b)): x"),
        ("x = 1 if epoch < n else 2", "x = 1 if epoch < min(n, 2) else 2"),
        ("if step == 421: x", "if step == 421: x"),
        ("if n <= epoch < 90: x", "if min(n, 2) <= epoch < 90: x"),
    ],
    ids=[
        "a number",
        "in parentheses",
        "a remainder of a longer one",
        "the last of them",
        "another",
        "with a mark",
        "no Python",
        *("batches", "a generator", "wrapped", "a wrapped generator", "epochs", "a range"),
        "another function",
        *("an event", "in parentheses, of several", "a phase", "another event", "a stretch"),
    ],
)
def test_it_comes_sooner(text: str, becomes: str) -> None:
    remainders = frozenset({"step % 100", "(step + 1) % (a * b)", "s % n"})
    what = Seldom(
        remainders=remainders,
        stages=frozenset({"step == 420", "step + 1 == a * b", "epoch < n", "n <= epoch < 90"}),
        inner=frozenset(
            {
                *(": x in data", ": (a, b) in (c for c in d)", "train: x in range(a, b)"),
                *(WRAPPED, ": x in tqdm((d for d in data))"),
            }
        ),
        outer=frozenset({": epoch in tqdm(range(9))"}),
    )
    assert sooner(text, what, interval=2, batches=4, epochs=7) == becomes


@pytest.mark.parametrize(
    ("items", "found"),
    [
        (range(0, 1000, 10), [0, 10, 20, 340, 660, 990]),
        (list("abcdef"), list("abcdef")),
        ((1, 2), [1, 2]),
        ([], []),
        (np.arange(100), [0, 1, 2, 34, 66, 99]),
        (torch.arange(100), [0, 1, 2, 34, 66, 99]),
        (iter(range(100)), [0, 1, 2, 3, 4, 5]),
        (dict.fromkeys(range(100)), [0, 1, 2, 3, 4, 5]),
    ],
    ids=["offsets", "few", "fewer", "none", "an array", "a tensor", "an iterator", "a table"],
)
def test_what_lies_further_along_is_among_few(items: Iterable[int], found: list[int]) -> None:
    assert [*few(items, 6, 3)] == found


@pytest.mark.parametrize(
    ("code", "left"),
    [
        ("if step == most: break", True),
        ("if step == most:\n                return", True),
        ("for part in batch:\n                break", False),
        ("def step():\n                return 1", False),
        ("pass", False),
    ],
)
def test_loops_that_may_be_left_are_told(code: str, left: bool) -> None:
    lines = f"def train(most):\n{textwrap.indent(textwrap.dedent(TRAIN), '    ')}"
    text = lines.replace("CODE", code)
    backward = next(n for n, at in enumerate(text.splitlines(), 1) if "backward" in at)
    places = Places(backward=Place(path=PATH, line=backward))
    found = seldom(parsed({PATH: text}, places, PATH))[PATH]
    assert found.left == (found.inner if left else frozenset())
    assert found.inner


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("average = 0.9 * average + loss\n        if average < FITTED: thaw()", "average < FITTED"),
        ("total = loss\n        if total >= 0.25: late = True", "total >= 0.25"),
        ("self.mean = loss\n        on = float(self.mean.item()) > args.on", "self.mean.item"),
        ("if up: best, bad = a, 0\n        bad += 1\n        if bad > 20: thaw()", "bad > 20"),
        ("if up: bad = 0\n        bad += 1\n        if bad == patience: thaw()", "bad == patience"),
        ("if up: bad = 0\n        bad += 1\n        if bad + 1 >= patience: thaw()", "bad + 1"),
        ("bad = 0\n        bad += 1\n        if bad > 20: thaw()", ""),  # of each epoch
        (
            "n += 1\n        if n == 500:\n            evaluate()\n            n = 0",
            "",
        ),  # every 500
        ("if up: bad = 0\n        bad += 1\n        if bad > 20: break", ""),
        ("count = len(batch)\n        if count > 0: thaw()", ""),  # keeps from failing
        ("best = loss\n        if loss < best: thaw()", ""),
        ("average = loss\n        if average < FITTED: break", ""),
        ("average = loss\n        if average < FITTED: continue", ""),
        ("if average < FITTED: thaw()", ""),  # nothing moves it
        ("seen += 1\n        if seen > most: thaw()", ""),  # a count, which is a stage
        ("norm = size\n        if norm > most: scale(most / norm)", ""),
    ],
)
def test_a_number_that_comes_to_a_threshold_is_found(code: str, found: str) -> None:
    thresholds = found_in(code).thresholds
    assert len(thresholds) == bool(found)
    assert all(found in each for each in thresholds)


def test_a_threshold_is_passed_sooner() -> None:
    what = Seldom(
        remainders=frozenset(),
        thresholds=frozenset({"average < FITTED"}),
        inner=frozenset(),
        outer=frozenset(),
    )
    text = "found = [not (average < FITTED) for average in (1, 2, 3, 4)]"
    becomes = sooner(text, what, interval=2, batches=0, epochs=0)
    assert LATE in becomes
    names = {"FITTED": 0}
    exec(becomes, names)
    assert names["found"] == [True, True, False, False]


def test_what_a_loop_goes_over_may_be_chosen_by_a_threshold() -> None:
    loop = ": x in easy if average < FITTED else hard"
    what = Seldom(
        remainders=frozenset(),
        thresholds=frozenset({"average < FITTED"}),
        inner=frozenset({loop}),
        outer=frozenset(),
    )
    text = "for x in easy if average < FITTED else hard: y"
    becomes = f"for x in {FEW}(easy if average < FITTED else hard, 4, 2): y"
    assert sooner(text, what, interval=2, batches=4, epochs=0) == becomes


def test_what_is_asked_often_enough_is_late_at_each_place() -> None:
    assert [late("a", 2), late("a", 2), late("b", 2), late("a", 2)] == [False, False, False, True]
