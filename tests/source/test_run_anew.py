"""Workers are left out where each would import the main script, and with it run the training."""

import multiprocessing

import pytest

from autotune.source.edits import LoaderArgument
from tests.source.programs import rewritten

WORKERS = LoaderArgument(name="num_workers", code="2")
TRAINING = """\
net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=8{context})
for x, y in loader:
    criterion(net(x), y).backward()
    optimizer.step()
"""
IMPORTS = """\
import torch
import torch.multiprocessing as mp
from torch import optim
from torch.utils.data import DataLoader
{start}
"""


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def program(*, start: str = "", context: str = "", form: str = "plain") -> str:
    training = TRAINING.format(context=context)
    forms = {
        "plain": training,
        "guarded": 'if __name__ == "__main__":\n' + indented(training),
        "called": "def main():\n" + indented(training) + "main()\n",
        "called under guard": "def main():\n"
        + indented(training)
        + 'if __name__ == "__main__":\n    main()\n',
    }
    return IMPORTS.format(start=start) + forms[form]


@pytest.mark.parametrize("form", ["plain", "called"])
@pytest.mark.parametrize(
    ("start", "context"),
    [
        ('mp.set_start_method("spawn", force=True)', ""),
        ("", ', multiprocessing_context="forkserver"'),
        ("", ', multiprocessing_context=mp.get_context("spawn")'),
        ('options = {"multiprocessing_context": mp.get_context("spawn")}', ", **options"),
        ('context = mp.get_context("spawn")', ", multiprocessing_context=context"),
    ],
)
def test_what_is_spawned_without_a_guard_runs_the_program_anew(
    start: str, context: str, form: str
) -> None:
    outcome = rewritten(program(start=start, context=context, form=form), WORKERS)
    assert outcome.statuses == ["refused"]
    assert outcome.reason.startswith("each worker may import the main script")


@pytest.mark.parametrize("form", ["guarded", "called under guard"])
def test_a_guard_keeps_it_from_that(form: str) -> None:
    spawning = program(start='mp.set_start_method("spawn")', form=form)
    assert rewritten(spawning, WORKERS).statuses == ["done"]


def test_what_is_forked_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["fork", "spawn"])
    assert rewritten(program(), WORKERS).statuses == ["done"]
    other = 'with mp.get_context("spawn").Pool(4) as pool:\n    pool.map(fetch, urls)'
    assert rewritten(program(start=other), WORKERS).statuses == ["done"]
    none = program(start=other, context=", multiprocessing_context=None")
    assert rewritten(none, WORKERS).statuses == ["done"]
    own = program(start=other, context=', multiprocessing_context=mp.get_context("fork")')
    assert rewritten(own, WORKERS).statuses == ["done"]
    forking = program(context=', multiprocessing_context="fork"')
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    assert rewritten(forking, WORKERS).statuses == ["done"]
    assert rewritten(program(), WORKERS).statuses == ["refused"]
