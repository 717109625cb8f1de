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
        ("meter.update(norm_of(net))", "pass", 10),
        ("norm = norm_of(net); meter.update(norm)", "pass", 10),
        ("right = fits(out, y)", "right = fits(out, held)\n    if right > 0.9: break", 0),
        ("right = fits(out, y)", "if right > 0.9: break", 12),
        ("norm = norm_of(net)", "if epoch: norm = 1\n    if norm > 9: break", 13),
        ("norm = norm_of(net)", "norm = norm + 1\n    if norm > 9: break", 13),
    ],
)
def test_what_ends_the_program(between: str, after: str, line: int) -> None:
    text = TEXT.replace("BETWEEN", between).replace("AFTER", after)
    backward, step = (Place(path="/p/train.py", line=at) for at in (9, 11))
    places = Places(backward=backward, step=step)
    program = parsed({"/p/train.py": text}, places, "/p/train.py")
    found = fatal_check(program, backward_call(program, ""), step_call(program, ""))
    assert (found.lineno if found else 0) == line
