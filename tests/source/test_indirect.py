"""What a loop whose batches are divided does by way of the program's own functions."""

import pytest

from autotune.source.edits import Accumulate
from autotune.source.rewrite import rewrite
from tests.source.programs import PATH, places_of, rewritten, source

TWO = Accumulate(steps=2)
TRAINER = source(
    """
    import math
    import torch
    from torch.utils.data import DataLoader

    class Trainer:
        def __init__(self, model, optimizer):
            self.step, self.model, self.optimizer = 0, model, optimizer
            self.bn = self.count = self.stop = False
            self.init_weights()

        def init_weights(self):
            for p in self.model.parameters():
                p.data.zero_()

        def train(self, data):
            loader = DataLoader(data, batch_size=8)
            for x, y in loader:
                self.model.train()
                self.before()
                loss = self.criterion(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.after(math.log(loss.item()))
                {end}

        def before(self):
            {before}

        def after(self, loss):
            {after}

        def unused(self):
            self.step += 1
            if self.step > 9:
                self.optimizer.step()

    class Average:
        def update(self, n=1):
            self.it += 1
            for p, q in zip(self.mean.parameters(), self.model.parameters()):
                p.data.lerp_(q.data, 1 / self.it)

    class Meter:
        def update(self, value, n=1):
            self.sum, self.seen = self.sum + value * n, self.seen + n
    """
)
PASS = {"before": "pass", "after": "pass", "end": "pass"}
COUNT = "self.it += 1\n        "
REFUSED = {
    "a schedule by its own count": (
        {
            "before": COUNT + "lr = min(1, self.it / 100)\n"
            "        for g in self.optimizer.param_groups: g['lr'] = lr"
        },
        "a count in self.it",
    ),
    "a learning rate": (
        {"before": "for g in self.optimizer.param_groups: g['lr'] *= 0.99"},
        "before(), which the loop may come to call, touches an optimizer's param_groups",
    ),
    "an evaluation now and then": (
        {"after": COUNT + "if self.it % 500 == 0: self.evaluate()"},
        "a count in self.it",
    ),
    "a count that others decide by": (
        {"after": COUNT + "print(self.it)", "end": "if trainer.it > 9: finish()"},
        "a count in self.it",
    ),
    "a count in a table": (
        {"after": "self.state['n'] += 1\n        loss = 1 / 2 ** self.state['n']"},
        "a count in self.state['n']",
    ),
    "a count of all": (
        {"after": "global done\n        done += 1\n        if done == 9: finish()"},
        "a count in done",
    ),
    "a count further in": (
        {"after": "self.tick()\n    def tick(self):\n        " + COUNT + "rate(self.it)"},
        "a count in self.it",
    ),
    "a count of the model's": (
        {
            "after": "pass\n    def forward(self, x):\n        self.n += 1\n"
            "        return x * min(1.0, self.n / 1000)"
        },
        "a count in self.n",
    ),
    "a count of a criterion's": (
        {
            "after": "pass\nclass Loss:\n    def __call__(self, x, y):\n        self.n += 1\n"
            "        return x / 2 ** self.n\nclass Own(Trainer):\n    def build(self):\n"
            "        self.criterion = Loss()"
        },
        "a count in self.n",
    ),
    "an end that a function sets": (
        {"after": "self.stop = loss < 0.1", "end": "if self.stop: break"},
        "left early",
    ),
    "an end that a function sets in a table": (
        {"after": "self.has['stop'] = loss < 1", "end": "if state['stop']: return"},
        "left early",
    ),
    "a scheduler": ({"after": "self.lr_schedule.step(loss)"}, "after(), which the loop may come"),
    "another optimizer": ({"before": "self.other.step()"}, "steps something"),
    "gradients": ({"after": "for p in self.ps: p.grad.clamp_(1)"}, "touches gradients"),
    "clipping": (
        {"before": "torch.nn.utils.clip_grad_norm_(self.ps, 1)"},
        "clips or clears gradients",
    ),
    "a teacher": (
        {
            "after": "for p, q in zip(self.model.parameters(), self.teacher.parameters()):\n"
            "            q.data.mul_(0.9).add_(p)"
        },
        "goes over weights",
    ),
    "a weight that is filled": (
        {
            "after": "weight = next(self.model.parameters()).data\n"
            "        self.h = weight.new(2, 8).zero_()\n        weight.zero_()"
        },
        "goes over weights",
    ),
    "a library's average": ({"after": "self.ema.update(self.model)"}, "an average of the weights"),
    "a rate that is set by a method of its group": (
        {"before": "for g in self.optimizer.param_groups: g.update(lr=0.1)"},
        "touches an optimizer's param_groups",
    ),
    "groups that are handed on": (
        {"before": "adjust(self.optimizer.param_groups)"},
        "touches an optimizer's param_groups",
    ),
    "a count that is said with an answer": (
        {
            "after": COUNT + "stop = self.tell(self.it)\n    def tell(self, n):\n"
            "        print(n)\n        return n > 9"
        },
        "a count in self.it",
    ),
    "an average of the loop's": (
        {"after": "self.avg.update(1)\n    def make(self):\n        self.avg = Average()"},
        "update(), which the loop may come to call, goes over weights",
    ),
    "an average that may be another's": (
        {
            "after": "self.avg.update(1)\n    def make(self, given):\n        self.avg = Meter()\n"
            "        self.avg = given"
        },
        "update(), which the loop may come to call, goes over weights",
    ),
    "an average that a meter inherits from": (
        {
            "after": "self.avg.update(1)\n    def make(self):\n        self.avg = Own()\n"
            "class Own(Average):\n    pass"
        },
        "update(), which the loop may come to call, goes over weights",
    ),
    "an average that a parameter is": (
        {"after": "self.more(self.avg)\n    def more(self, m):\n        m.update(1)"},
        "update(), which the loop may come to call, goes over weights",
    ),
    "a library's other net": ({"after": "self.swa.update_parameters(self.model)"}, "an average"),
}
TAKEN = {
    "tensors like a weight": {
        "after": "weight = next(self.model.parameters()).data\n"
        "        self.h = weight.new(2, 8).zero_().to(weight.device)"
    },
    "a count that is said": {
        "after": COUNT + "if self.it % 50 == 0: print(self.it)\n        self.seen.append(self.it)"
    },
    "counts within a call": {
        "after": "n = 0\n        for x in val:\n            n += 1\n            if n > 9: return"
    },
    "an end that nothing sets": {"end": "if self.dry_run: break"},
    "a learning rate that is said": {
        "after": "said = {}\n        said['lr'] = self.optimizer.param_groups[0]['lr']"
    },
    "another gradient": {"before": "torch.autograd.grad(self.e, self.x)"},
    "the library's function of that name": {
        "before": "math.unused(1)\n        return torch.unused(2)"
    },
    "a step that is no optimizer's": {"before": "self.h = self.cell.step(self.h)"},
    "a rate that is read from each group": {
        "end": "print([g['lr'] for g in self.optimizer.param_groups])",
        "after": "for g in self.optimizer.param_groups:\n            rate = g['lr']",
    },
    "a count that a function says": {
        "after": COUNT + "self.tell(self.it)\n    def tell(self, n):\n        print(str(n))"
    },
    "a meter beside an average of the same method": {
        "after": "self.top = Meter()\n        self.top.update(loss, 8)"
    },
    "a meter that is an attribute": {
        "after": "self.top.update(loss, 8)\n    def make(self):\n        self.top = Meter()"
    },
    "a library's meter": {
        "after": "self.top.update(loss)\n    def make(self):\n        self.top = torch.Accuracy()"
    },
    "words of the loss": {"before": "self.make_target()\n        self.average(1)"},
}


@pytest.mark.parametrize(("parts", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_a_method_does_for_each_batch_is_seen(parts: dict[str, str], reason: str) -> None:
    text = TRAINER.format(**PASS | parts)
    outcome = rewritten(text, TWO)
    assert outcome.statuses == ["refused"], outcome.text
    assert reason in outcome.reason


@pytest.mark.parametrize("parts", TAKEN.values(), ids=TAKEN)
def test_what_a_method_does_otherwise_is_taken(parts: dict[str, str]) -> None:
    outcome = rewritten(TRAINER.format(**PASS | parts), TWO)
    assert outcome.statuses == ["done"], outcome.reason


def test_a_method_of_another_file_is_seen_too() -> None:
    text = TRAINER.format(**PASS | {"after": "self.tick()"})
    base = "class Base:\n    def tick(self):\n        self.it += 1\n        self.rate(self.it)\n"
    other = PATH.replace("train", "base")
    done = rewrite({PATH: text, other: base}, [("micro_batches", TWO)], places_of(text))
    assert "a count in self.it" in done.outcomes[0].reason
    base = base.replace("self.rate", "print")
    done = rewrite({PATH: text, other: base}, [("micro_batches", TWO)], places_of(text))
    assert done.outcomes[0].status == "done"
