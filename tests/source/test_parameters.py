"""Which model an optimizer is given the parameters of, told by running what is written for it."""

from typing import Any

import pytest

from autotune.source.edits import ModelStatement, OutputPlace, Place, Places
from autotune.source.rewrite import rewrite
from tests.source.programs import PATH, rewritten, source

MARK = ModelStatement(code="{model}.marked = True")
ENGINE = "/project/engine.py"

BUILT = """
import torch
from torch.optim import SGD
teacher, student = torch.nn.Linear(2, 1), torch.nn.Sequential(torch.nn.Linear(2, 1))
student.fc = torch.nn.Linear(1, 1)
models = [student]
def get_params(model):
    return list(model.parameters())
"""
FREEZING = "for p in teacher.parameters():\n    p.requires_grad = False\n"
TOLD = {
    "a comprehension": FREEZING
    + "optimizer = SGD([p for p in student.parameters() if p.requires_grad], lr=0.1)\n",
    "a generator": FREEZING
    + "optimizer = SGD((p for n, p in student.named_parameters() if 'fc' in n), lr=0.1)\n",
    "a lambda": FREEZING
    + "optimizer = SGD(filter(lambda p: p.requires_grad, student.parameters()), lr=0.1)\n",
    "a part, thawed": "for p in student.parameters():\n    p.requires_grad = False\n"
    "for p in student.fc.parameters():\n    p.requires_grad = True\n"
    "optimizer = SGD(filter(lambda p: p.requires_grad, student.parameters()), lr=0.1)\n",
    "a list of a loop": FREEZING
    + "given = []\nfor n, p in student.named_parameters():\n    given.append(p)\n"
    "optimizer = SGD(given, lr=0.1)\n",
    "groups by name": "skipped = [p for p in ('bias',)]\n"
    "for p in teacher.parameters():\n    p.requires_grad = False\n"
    "groups = [{'params': [p for n, p in student.named_parameters() if n not in skipped]}]\n"
    "optimizer = SGD(groups, lr=0.1)\n",
    "module by module": FREEZING
    + "optimizer = SGD([p for m in student.modules() for p in m.parameters(recurse=False)])\n",
    "a part that is trained by itself": "for p in student.parameters():\n"
    "    p.requires_grad = False\noptimizer = SGD(student.fc.parameters(), lr=0.1)\n",
    "a function": FREEZING + "given = get_params(student)\n"
    "optimizer = SGD([p for p in given if p.requires_grad], lr=0.1)\n",
}


@pytest.mark.parametrize("text", TOLD.values(), ids=TOLD)
def test_the_model_is_not_the_one_that_is_frozen_before(text: str) -> None:
    text = source(BUILT + text)
    line = 1 + text[: text.index("optimizer = ")].count("\n")
    called = OutputPlace(path=PATH, line=99, callee="student", tensors=True)
    places = Places(optimizer=Place(path=PATH, line=line), outputs=(called,))
    outcome = rewritten(text, MARK, places=places)
    assert outcome.statuses == ["done"], outcome.reason
    names: dict[str, Any] = {}
    exec(outcome.text, names)
    assert names["student"].marked
    assert not hasattr(names["teacher"], "marked")


def test_a_model_has_another_name_where_it_is_called() -> None:
    text = source(
        BUILT
        + "given = get_params(student)\noptimizer = SGD(given, lr=0.1)\n"
        + "def train(net, loader):\n    for x in loader:\n        net(x).sum().backward()\n"
        + "train(student, [])\n"
    )
    called = OutputPlace(path=PATH, line=12, callee="net", tensors=True)
    places = Places(optimizer=Place(path=PATH, line=9), outputs=(called,))
    assert "\nstudent.marked = True\noptimizer" in rewritten(text, MARK, places=places).text


OWN_GROUPS = """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = SGD(self.groups(0.1), lr=0.1)

    def groups(self, decay):
        MODEL
        return [{"params": p, "weight_decay": decay} for p in model.parameters()]
"""


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ("", "self.model.marked"),
        ("model = self.model", ""),
        ("given = list(self.head.parameters())", ""),
    ],
)
def test_groups_that_a_method_makes_are_of_the_attribute_that_it_reads(own: str, told: str) -> None:
    text = BUILT + OWN_GROUPS.replace("MODEL", own or "decay = max(decay, 0)")
    text = source(text if own.startswith("model") else text.replace(" model.p", " self.model.p"))
    line = 1 + text[: text.index("self.optimizer = ")].count("\n")
    outcome = rewritten(text, MARK, places=Places(optimizer=Place(path=PATH, line=line)))
    assert outcome.statuses == ["done" if told else "refused"]
    assert f"        {told} = True\n        self.optimizer" in outcome.text or not told


NOT_TOLD = {
    "of a function, of a model that nothing is seen to call": FREEZING
    + "given = get_params(student)\noptimizer = SGD([p for p in given if p.requires_grad])\n",
    "of several": "optimizer = SGD([p for net in models for p in net.parameters()])\n",
    "of both": "given = []\nfor net in (teacher, student):\n    given += net.parameters()\n"
    "optimizer = SGD(given)\n",
}


@pytest.mark.parametrize("text", NOT_TOLD.values(), ids=NOT_TOLD)
def test_a_model_that_cannot_be_named_is_not_guessed(text: str) -> None:
    outcome = rewritten(source(BUILT + text), MARK)
    assert outcome.statuses == ["refused"], outcome.text
    assert "one model that can be named" in outcome.reason


MAIN = """
import torch
import engine
from engine import train_one_epoch

def add_weight_decay(model, decay):
    return [{"params": list(model.parameters()), "weight_decay": decay}]

model = torch.nn.Linear(2, 1)
model_without_ddp = model
if False:
    model = torch.nn.parallel.DistributedDataParallel(model)
    model_without_ddp = model.module
groups = add_weight_decay(model_without_ddp, 0.05)
optimizer = torch.optim.AdamW(groups, lr=0.1)
CALL
"""
LOOP = """
def train_one_epoch(model, loader, optimizer):
    for x in loader:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("train_one_epoch(model, [], optimizer)", True),
        ("engine.train_one_epoch(loader=[], model=model, optimizer=optimizer)", True),
        ("train_one_epoch(other, [], optimizer)", False),
        ("", False),
    ],
)
def test_groups_that_a_function_makes_are_of_what_is_given_to_the_loop(
    call: str, told: bool
) -> None:
    sources = {PATH: source(MAIN).replace("CALL", call), ENGINE: source(LOOP)}
    called = OutputPlace(path=ENGINE, line=3, callee="model", tensors=True)
    places = Places(optimizer=Place(path=PATH, line=14), outputs=(called,))
    done = rewrite(sources, [("knob", MARK)], places)
    assert [at.status for at in done.outcomes] == (["done"] if told else ["refused"])
    assert ("\nmodel_without_ddp.marked = True\noptimizer" in done.sources[PATH]) is told
