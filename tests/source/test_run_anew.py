"""Workers are left out where each would import the main script, and with it run the training."""

import multiprocessing
from dataclasses import replace

import pytest

from autotune.source.edits import LoaderArgument, Place
from tests.source.programs import PATH, places_of, rewritten

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


OWN = """\
class Own(DataLoader):
    def __init__(self, data, **kwargs):
        super().__init__(data, {context}**kwargs)

"""


@pytest.mark.parametrize(
    ("context", "later", "refused"),
    [
        ("", "", False),
        ('multiprocessing_context=mp.get_context("spawn"), ', "", True),
        ('multiprocessing_context="spawn", ', "", True),
        ("multiprocessing_context=None, ", "", False),
        ('multiprocessing_context=mp.get_context("fork"), ', "", False),
        ("", 'loader.multiprocessing_context = "spawn"\n', True),
        ("", 'loader.multiprocessing_context = mp.get_context("forkserver")\n', True),
        ("", 'loader.multiprocessing_context = "fork"\n', False),
    ],
)
def test_a_class_of_its_own_or_an_attribute_may_say_how_workers_are_started(
    context: str, later: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["fork", "spawn"])
    other = 'with mp.get_context("spawn").Pool(4) as pool:\n    pool.map(fetch, urls)'
    text = program(start=f"{OWN.format(context=context)}{other}")
    text = text.replace("loader = DataLoader", "loader = Own").replace(
        "for x, y", f"{later}for x, y"
    )
    lines = text.splitlines()
    loader, within = (
        next(number for number, at in enumerate(lines, 1) if each in at)
        for each in ("loader = Own", "super()")
    )
    places = replace(
        places_of(text),
        loader=Place(path=PATH, line=loader),
        loader_class=Place(path=PATH, line=within),
    )
    outcome = rewritten(text, WORKERS, places=places)
    assert outcome.statuses == (["refused"] if refused else ["done"]), outcome.reason
    assert outcome.reason.startswith("each worker may import the main script") == refused


def test_what_the_class_of_another_loader_says_is_not_of_the_training_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["fork", "spawn"])
    other = OWN.format(context='multiprocessing_context=mp.get_context("spawn"), ')
    assert rewritten(program(start=other), WORKERS).statuses == ["done"]
