"""Other implementations of an optimizer are forbidden beside what a program makes of its state."""

import pytest

from autotune.source.edits import OptimizerArgument, Place, Places
from autotune.source.program import Forbidden, parsed
from autotune.source.rewrites.optimizer import optimizer_argument

TEXT = """\
optimizer = torch.optim.KIND(net.parameters(), lr=0.1)
game = Game()
for step, (x, y) in enumerate(loader):
    loss_of(net(x), y).backward()
    optimizer.step()
    if step % 500 == 499:
        STEP
"""
EACH = "for state in optimizer.state.values():"
COUNTED = f"{EACH} state['step'] = torch.tensor(0)"


def refused(step: str, kind: str, name: str) -> str:
    """Why the optimizer cannot be built with `name=True`."""
    text = TEXT.replace("STEP", step).replace("KIND", kind)
    places = Places(
        backward=Place(path="/p/train.py", line=4), optimizer=Place(path="/p/train.py", line=1)
    )
    program = parsed({"/p/train.py": text}, places, "/p/train.py")
    try:
        optimizer_argument(program, OptimizerArgument(name=name, code="True"))
    except Forbidden as error:
        return error.reason
    return ""


@pytest.mark.parametrize(
    "step",
    [
        COUNTED,
        "for weight, state in optimizer.state.items(): state['step'] = torch.tensor(0)",
        "optimizer.state[net.weight]['step'] = 0",
        f"{EACH} state['step'] = torch.zeros_like(state['step'], dtype=torch.int64)",
        "optimizer.state[net.weight].update(step=0, exp_avg=zeros)",
        "kept = optimizer.state.get(net.weight)\n        kept['step'] = 0",
    ],
)
@pytest.mark.parametrize("name", ["fused", "foreach"])
def test_another_count_of_steps(step: str, name: str) -> None:
    assert "train.py:7" in refused(step, "AdamW", name) or "train.py:8" in refused(
        step, "AdamW", name
    )


@pytest.mark.parametrize(
    "step",
    [
        "for state in optimizer.state.values(): state['exp_avg'].zero_()",
        "for state in optimizer.state.values(): print(state['step'])",
        f"{EACH} state['step'] = torch.zeros_like(state['step'])",
        "game.state[square]['step'] = 0",
        "optimizer.state[net.weight] = {}",  # Adam makes each weight's by itself
        "optimizer.state.pop(net.weight)",
        "optimizer.state.clear()",
        "optimizer.param_groups[0]['step'] = 0",
    ],
)
def test_what_they_take(step: str) -> None:
    assert not refused(step, "AdamW", "fused")


@pytest.mark.parametrize(
    ("step", "is_refused"),
    [
        ("optimizer.state[net.weight] = {}", True),
        ("del optimizer.state[net.weight]", True),
        ("del optimizer.state[net.weight]['momentum_buffer']", True),
        ("optimizer.state.pop(net.weight, None)", True),
        ("optimizer.state[net.weight].clear()", True),
        ("optimizer.state[net.weight].pop('momentum_buffer')", True),
        ("optimizer.state.clear()", False),  # of all at once
        ("optimizer.state = defaultdict(dict)", False),
        ("optimizer.state[net.weight]['momentum_buffer'].zero_()", False),
        ("game.state.pop(square)", False),
    ],
)
def test_a_weight_without_its_momentum(step: str, is_refused: bool) -> None:
    assert ("dropped or replaced at train.py:7" in refused(step, "SGD", "fused")) is is_refused
    assert not refused(step, "SGD", "foreach")


@pytest.mark.parametrize(
    ("step", "is_refused"),
    [
        ("optimizer.param_groups[0]['params'].extend(head.parameters())", True),
        ("optimizer.param_groups[-1]['params'] += list(head.parameters())", True),
        ("optimizer.param_groups[0]['lr'] *= 0.1", False),
        ("groups[0]['params'].extend(head.parameters())", False),  # what one is built with
        ("optimizer.add_param_group({'params': head.parameters()})", False),
    ],
)
def test_weights_that_come_into_a_group(step: str, is_refused: bool) -> None:
    assert ("there already at train.py:7" in refused(step, "SGD", "fused")) is is_refused
    assert not refused(step, "AdamW", "fused")
    assert not refused(step, "SGD", "foreach")


@pytest.mark.parametrize(
    ("step", "is_refused"),
    [
        ("optimizer.add_param_group({'params': [torch.zeros(3, dtype=torch.cfloat)]})", True),
        ("table = nn.Embedding(9, 2, sparse=True); optimizer.add_param_group(table)", True),
        ("optimizer.add_param_group(head.parameters()); complexity = 3  # complex", False),
        ("optimizer.add_param_group({'params': head.parameters()})", False),
        ("game.add_param_group(torch.cfloat)", False),
        ("x = torch.zeros(3, dtype=torch.cfloat)", False),
        ("optimizer.add_param_group({'params': [torch.fft.rfft(kernel)]})", True),
        ("optimizer.add_param_group({'params': [torch.polar(a, b)]})", True),
    ],
)
def test_complex_or_sparse_weights_that_join(step: str, is_refused: bool) -> None:
    assert ("join the optimizer at train.py:7" in refused(step, "AdamW", "fused")) is is_refused
    assert not refused(step, "AdamW", "foreach")
