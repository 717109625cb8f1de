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
