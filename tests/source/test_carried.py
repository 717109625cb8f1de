"""What a training carries from one batch to the next."""

import textwrap

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.carried import carried_state
from autotune.source.program import parsed

LOOP = """\
state = None
for x, y, first in loader:
    if first:
        state = None
    STEP
    loss = loss_of(out, y)
    loss.backward()
    optimizer.step()
"""


def carried(step: str) -> str:
    text = LOOP.replace("STEP", step)
    line = text[: text.index("loss.backward")].count("\n") + 1
    places = Places(backward=Place(path="/p/train.py", line=line))
    return carried_state(parsed({"/p/train.py": text}, places, "/p/train.py"))


@pytest.mark.parametrize(
    "step",
    [
        "out, state = model(x, state)\n    state = state.detach()",
        "out, state = model(x, state=state)",
        "state = repackage(state)\n    out, state = model(x, state)",
        "out, state = model(x, [h.detach() for h in state])",
        "inputs = x.to(device)\n    out, state = model(inputs, state)",
    ],
)
def test_a_state_that_the_loop_gives_on(step: str) -> None:
    assert carried(step).startswith("state, train.py:")


@pytest.mark.parametrize(
    "step",
    [
        "out, _ = model(x, state)",
        "state = model.zeros(len(x))\n    out, state = model(x, state)",  # each batch's own
        "x = augment(x)\n    out = model(x)",
        "x, y = mix(x, y)\n    out = model(x)",
        "out = model(x)\n    best = max(best, out.mean())",
        "out = model(x)\n    total = add(total, 1)",
        "with autocast():\n        out = model(x)\n        out = masked(out, first)",
        "if first:\n        out = model(x)\n        out = masked(out, first)",
        "out = model(x)\n    mean = moved(mean, out.mean().item())",  # is said
    ],
)
def test_what_each_batch_begins_with_is_none(step: str) -> None:
    assert carried(step) == ""


MODULE = """\
class Net(nn.Module):
    def forward(self, x):
        out, h = self.rnn(x, {})
        {}
        return out

for x in loader:
    Net()(x).mean().backward()
"""


@pytest.mark.parametrize(
    ("given", "kept", "found"),
    [
        ("self.state", "self.state = h.detach()", "self.state, train.py:4"),
        ("None", "self.last = h.detach()", ""),  # for somebody to look at
        ("self.first", "self.calls = self.calls + 1", ""),
        ("None", "self.shown = h.detach(); out = out, self.shown", ""),  # of this batch
        ("self.share", "self.share = self.share.type_as(x.data)", ""),
        ("self.state", "self.state = tuple(at.detach() for at in h)", "self.state, train.py:4"),
        ("self.state", "self.state = h[0].detach(), h[1].detach()", "self.state, train.py:4"),
        (
            "self.state",
            "self.state = None if out is None else h.data[:1]",
            "self.state, train.py:4",
        ),
    ],
)
def test_a_state_that_a_module_keeps(given: str, kept: str, found: str) -> None:
    text = textwrap.dedent(MODULE.format(given, kept))
    places = Places(backward=Place(path="/p/train.py", line=8))
    assert carried_state(parsed({"/p/train.py": text}, places, "/p/train.py")) == found
