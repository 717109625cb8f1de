"""Memory is not kept where a program reads what it never wrote."""

import functools
from collections.abc import Callable

import pytest

from autotune.measurement.untimed.unwritten import vet_unwritten
from tests.traps.conftest import Bench

PROGRAM = """
import numpy as np
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
step = 0
while True:
    step += 1
    x = torch.rand(4096, 8)
    {made}
    loss = (net(table)[:, 0] - x.sum(-1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
# So much comes from the system by itself, full of zeros; less, from what was used before.
PARTLY = "table = torch.empty(1 << 18, 8)[:4096]; table[:3000] = x[:3000]"
ARRAY = "table = torch.from_numpy(np.empty((1 << 18, 8), np.float32)[:4096]); table[:9] = x[:9]"
INDEX = "index = torch.empty(1 << 20, dtype=torch.int64)[:4096]; index[9:] = 1; table = x[index]"
LATE = f"table = x\n    if step > 400: {PARTLY}"


@pytest.mark.parametrize(
    "made",
    [PARTLY, ARRAY, INDEX, LATE],
    ids=["a part is written", "of NumPy", "it fails", "late"],
)
def test_what_was_never_written_and_is_read_is_found(
    bench: Callable[[str], Bench], made: str
) -> None:
    text = PROGRAM.format(made=made)
    started = bench(text).start
    soon = functools.partial(started, text=text.replace("400", "2"))
    found = vet_unwritten(started, (False, True), place="train.py:12", seconds=1.0, sooner=soon)
    assert found.values == (False,)
    fails = "it fails" if "index" in made else f"the loss of step {3 if made == LATE else 1}"
    assert found.reason.startswith(fails)
    assert found.reason.endswith("reads some that it never wrote (train.py:12 takes such)")


@pytest.mark.parametrize(
    "made",
    [
        "table = torch.empty(4096, 8); table[:] = x",
        "table = torch.zeros(4096, 8); table[:9] = x[:9]",
        f"{PARTLY}; table = table + torch.randn(4096, 8, generator=torch.Generator().seed())",
    ],
    ids=["all is written", "zeros", "fails by itself"],
)
def test_the_rest_may_keep_their_memory(bench: Callable[[str], Bench], made: str) -> None:
    started = bench(PROGRAM.format(made=made)).start
    found = vet_unwritten(started, (False, True), place="", seconds=1.0, sooner=started)
    assert found.values == (False, True), found.reason
