"""Ways out of a loop whose batches are divided: none leaves a group without its step."""

from typing import Any

import pytest
import torch

from autotune.source.edits import Accumulate
from tests.source.programs import PATH, rewritten, source

TRAINING = source(
    """
    import torch
    from torch.utils.data import DataLoader

    def train(data, dry_run=False, every=4):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        loader = DataLoader(data, batch_size=8, shuffle=True, drop_last={drop_last})
        optimizer.register_step_post_hook(lambda *_: counted.append(1))
        for i, (x, y) in enumerate(loader):
            {above}
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            {below}
        return model.weight
    """
)
# torch/examples' mnist leaves like the first of these.
WAITING = {
    "in the log": (
        "pass",
        "if i % every == 0:\n            print(i)\n            if dry_run:\n                break",
    ),
    "in the log, on one line": ("pass", "if i % every == 0:\n            if dry_run: break"),
    "at the end": ("pass", "if dry_run:\n            break"),
    "behind the step": ("pass", "if dry_run:\n            break\n        print(loss.item())"),
    "from the function": ("pass", "if dry_run:\n            return model.weight\n        print(i)"),
    "at the top": ("if dry_run:\n            break", "print(i)"),
    "of every batch": ("if dry_run:\n            continue", "print(i)"),
    "of an inner loop": (
        "for n in range(3):\n            if dry_run:\n                break",
        "pass",
    ),
    "of an inner loop, by what it finds": (
        "for n in range(3):\n            if n == i % 2:\n                break",
        "for n in range(3):\n            if loss > n:\n                continue",
    ),
}
LEAVING = {
    "by what the loop finds": "self.bad = loss > 9\n        if self.bad:\n            continue",
    "by what a dict has": "state['bad'] = loss > 9\n        if state['bad']:\n            break",
    "in a log that is not of the first batch": (
        "if i % 100 == 99:\n            print(i)\n            if dry_run:\n                break"
    ),
    "in the midst of a log": (
        "if i % 100 == 0:\n            if dry_run:\n                break\n            print(i)"
    ),
    "by what an inner loop finds": (
        "for n in range(3):\n            if n == i:\n                return\n            print(n)"
    ),
    "in the else of an inner loop": (
        "for n in range(3):\n            print(n)\n        else:\n            if dry_run:\n"
        "                break"
    ),
    "before a log": "if i % 9 == 0:\n            if dry_run: break\n        print(i)",
    "out of the function in a log": (
        "if i % 100 == 0:\n            print(i)\n            if dry_run:\n                return"
    ),
}


def trained(text: str, *, dry_run: bool) -> tuple[torch.Tensor, int]:
    """The weights that the program `text` comes to, and how many steps it makes."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(29, 3, generator=generator)
    data = torch.utils.data.TensorDataset(inputs, torch.randn(29, 1, generator=generator))
    steps: list[int] = []
    names: dict[str, Any] = {"counted": steps}
    exec(compile(text, PATH, "exec"), names)
    return names["train"](data, dry_run=dry_run).detach(), len(steps)


@pytest.mark.parametrize("steps", [2, 4])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("above", "below"), WAITING.values(), ids=WAITING)
def test_a_way_out_waits_for_the_step(above: str, below: str, drop_last: bool, steps: int) -> None:
    text = TRAINING.format(above=above, below=below, drop_last=drop_last)
    outcome = rewritten(text, Accumulate(steps=steps))
    assert outcome.statuses == ["done"], outcome.reason
    for dry_run in (False, True):
        (weights, count), (expected, wanted) = (
            trained(each, dry_run=dry_run) for each in (outcome.text, text)
        )
        assert count == wanted
        torch.testing.assert_close(weights, expected)
    assert rewritten(outcome.text, Accumulate(steps=steps)).statuses == ["already"]


@pytest.mark.parametrize("line", LEAVING.values(), ids=LEAVING)
def test_a_way_out_in_the_midst_of_a_group_is_refused(line: str) -> None:
    text = TRAINING.format(above=line, below="pass", drop_last=False)
    outcome = rewritten(text, Accumulate(steps=2))
    assert outcome.statuses == ["refused"], outcome.text
    assert "the loop can be left early or skip a batch" in outcome.reason
    text = TRAINING.format(above="pass", below=line, drop_last=False)
    assert rewritten(text, Accumulate(steps=2)).statuses == ["refused"]


def test_a_loop_that_is_left_in_its_log_is_left_behind_the_step() -> None:
    above, below = WAITING["in the log"]
    text = TRAINING.format(above=above, below=below, drop_last=True)
    assert rewritten(text, Accumulate(steps=2)).text.endswith(
        """\
        if i % every == 0:
            print(i)
            if dry_run:
                leaving = True
        if leaving and (i + 1) % 2 == 0:
            break
    return model.weight
"""
    )
