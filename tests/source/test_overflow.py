"""What ends a program by its gradients is told from what ends it by something else."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.places import backward_call, step_call
from autotune.source.program import parsed
from autotune.source.refusals.overflow import fatal_check

TEXT = """\
import math
class Meter:
    def update(self, value, count=1):
        if not math.isfinite(value):
            raise ValueError

def accuracy(out, y, k=1):
    return out.topk(k)[1].view(-1).eq(y).float().mean()

def norm_now():
    return sum(p.grad.norm() for p in net.parameters())

for epoch in range(9):
    loss = criterion(net(x), y)
    loss.backward()
    BETWEEN
    optimizer.step()
    AFTER
"""


@pytest.mark.parametrize(
    ("between", "after", "line"),
    [
        ("meter.update(loss.item(), 8)", "pass", 0),
        ("meter.update(norm_of(net))", "pass", 16),
        ("norm = norm_of(net); meter.update(norm)", "pass", 16),
        ("right = accuracy(out, y)", "if right > 0.9: break", 0),
        ("right = (out.argmax(1) == y).float().mean()", "if right > 0.9: break", 0),
        ("norm = norm_now()", "if norm > 9: break", 18),
        ("if os.path.exists('stop') or time.time() > late: break", "pass", 0),
        ("if norm_now() > 9: break", "pass", 16),
        ("right = fits(out, y)", "right = fits(out, held)\n    if right > 0.9: break", 0),
        ("right = fits(out, y)", "if right > 0.9: break", 18),
        ("norm = norm_of(net)", "if epoch: norm = 1\n    if norm > 9: break", 19),
        ("norm = norm_of(net)", "norm = norm + 1\n    if norm > 9: break", 19),
    ],
)
def test_what_ends_the_program(between: str, after: str, line: int) -> None:
    text = TEXT.replace("BETWEEN", between).replace("AFTER", after)
    backward, step = (Place(path="/p/train.py", line=at) for at in (15, 17))
    places = Places(backward=backward, step=step)
    program = parsed({"/p/train.py": text}, places, "/p/train.py")
    found = fatal_check(program, backward_call(program, ""), step_call(program, ""))
    assert (found.lineno if found else 0) == line


OWN = """\
import math

def clipped(net):
    return clip_grad_norm_(net.parameters(), 1.0)

def exploded():
    return not math.isfinite(norm)

def far():
    return exploded()

def check():
    if norm > 9: raise RuntimeError

def late():
    norm = time.time()
    return norm > 9

for epoch in range(9):
    loss = criterion(net(x), y)
    loss.backward()
    BETWEEN
    optimizer.step()
"""
CLOSURE = """\
class Trainer:
    def is_bad(self):
        return not math.isfinite(self.norm)

    def fit(self):
        def exploded():
            return not math.isfinite(norm)

        for x, y in self.loader:
            self.net(x).mean().backward()
            BETWEEN
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "between", "fatal"),
    [
        (OWN, "norm = clipped(net)\nif exploded(): raise RuntimeError", True),
        (OWN, "norm = clipped(net)\nif far(): break", True),
        (OWN, "norm = clipped(net)\ncheck()", True),
        (OWN, "norm = clipped(net)\nif late(): break", False),
        (OWN, "norm = loss.item()\nif exploded(): raise RuntimeError", False),
        (OWN, "norm = clipped(net)\nworst = max(worst, norm)\nif worst > 9: break", True),
        (OWN, "stats['norm'] = clipped(net)\nif stats['norm'] > 9: break", True),
        (OWN, "stats.norm = clipped(net)\nif stats.norm > 9: break", True),
        (OWN, "stats['loss'] = loss.item()\nif stats['loss'] > 9: break", False),
        (CLOSURE, "norm = clipped(self.net)\nif exploded(): raise RuntimeError", True),
        (CLOSURE, "self.norm = clipped(self.net)\nif self.is_bad(): return", True),
        (CLOSURE, "self.norm = clipped(self.net)\nif self.norm > 9: return", True),
        (CLOSURE, "self.norm = clipped(self.net)\nif self.count > 9: return", False),
        (CLOSURE, "self.count += 1\nif self.count > 9: return", False),
    ],
)
def test_what_a_function_of_its_own_reads_of_what_was_computed(
    text: str, between: str, fatal: bool
) -> None:
    margin = next(line for line in text.splitlines() if "BETWEEN" in line).partition("B")[0]
    text = text.replace("BETWEEN", between.replace("\n", f"\n{margin}"))
    lines = text.splitlines()
    backward, step = (
        Place(path="/p/train.py", line=next(n for n, at in enumerate(lines, 1) if each in at))
        for each in (".backward()", "optimizer.step()")
    )
    places = Places(backward=backward, step=step)
    program = parsed({"/p/train.py": text}, places, "/p/train.py")
    found = fatal_check(program, backward_call(program, ""), step_call(program, ""))
    assert (found is not None) == fatal
