"""The class of all modules stays as it is from call to call: each change of it costs 50 us."""

import textwrap
from pathlib import Path

import pytest
import torch
import torch._dynamo

from tests.workload.programs import HEAD, observe, run, steps

WATCHING = (
    HEAD
    + """
import copy
from pathlib import Path
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 2)
    def forward(self, x):
        said.append(nn.Module.__call__ is before)
        return self.inner(x)
lasting, said = Net(), []
for x, y in DataLoader(dataset, batch_size=4):
    MADE
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for step in range(2):
        before = nn.Module.__call__
        criterion(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        Path(r"SAID").write_text(f"{all(said)} of {len(said)}")
"""
)
COMPILED = (
    HEAD
    + """
from pathlib import Path
made = []
def backend(graph, _):
    made.append(graph)
    return graph.forward
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x):
        return self.last(self.first(x))
net = Net()
GIVEN
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
for x, y in DataLoader(dataset, batch_size=4):
    criterion(given(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    Path(r"SAID").write_text(str(len(made)))
"""
)


def said(text: str, folder: Path) -> str:
    """What the program `text` has said last, in some 30 steps."""
    run(text.replace("SAID", str(folder / "said")), steps(30), folder=folder)
    return (folder / "said").read_text()


@pytest.mark.parametrize("made", ["net = lasting", "net = copy.deepcopy(lasting)"])
def test_it_is_not_changed_while_modules_are_looked_for(made: str, tmp_path: Path) -> None:
    assert said(WATCHING.replace("MADE", made), tmp_path) == "True of 30"


@pytest.mark.parametrize(
    "given",
    [
        "given = torch.compile(lambda x: net(x), backend=backend)",
        "given = torch.compile(net, backend=backend)",
        "given = net; net.compile(backend=backend)",
    ],
    ids=["function", "model", "in_place"],
)
def test_what_compiles_is_compiled_once(given: str, tmp_path: Path) -> None:
    torch._dynamo.reset()
    assert said(COMPILED.replace("GIVEN", given), tmp_path) == "1"


def test_what_is_called_in_another_thread_hides_no_module(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent("""
        import threading
        class Actor(nn.Linear):
            def forward(self, x):
                threading.Event().wait()
        actor = Actor(8, 2).requires_grad_(False)
        threading.Thread(target=actor, args=(inputs,), daemon=True).start()
        net = nn.Sequential(nn.Linear(8, 2))
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
        for x, y in DataLoader(dataset, batch_size=4):
            criterion(net(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        """)
    seen = observe(text, tmp_path)
    assert [each.name for each in seen.models] == ["Sequential"]
    assert seen.places.forward is not None
    assert "net(x)" in text.splitlines()[seen.places.forward.line - 1]


def test_what_compiles_keeps_no_hook(tmp_path: Path) -> None:
    handler = torch._dynamo.callback_handler
    before = vars(handler).copy()
    said(COMPILED.replace("GIVEN", "given = net"), tmp_path)
    assert vars(handler) == before
