"""A training whose steps go by a chance that it moves is told from one where that stays."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.chances import moved_chance
from autotune.source.program import parsed

AGENT = """\
import math
import random
import numpy as np
import torch

class Agent:
    def act(self, state):
        {act}

    def learn(self, batch):
        loss = self.model(batch).mean()
        loss.backward()
        self.optimizer.step()
        {after}

def train(agent, env):
    state, epsilon, ratio = env.reset(), 1.0, 0.5
    for episode in range(500):
        while not env.done:
            {step}
            agent.learn(env.memory())
        {epoch}
"""
GREEDY = "return random.randrange(4)\n        return self.model(state).argmax()"


def found(
    act: str, *, step: str = "agent.act(state)", after: str = "pass", epoch: str = "pass"
) -> str:
    text = AGENT.format(act=act, step=step, after=after, epoch=epoch)
    line = 1 + text.splitlines().index("        loss.backward()")
    place = Place(path="run.py", line=line)
    return moved_chance(parsed({"run.py": text}, Places(backward=place), "run.py"))


@pytest.mark.parametrize(
    ("act", "after"),
    [
        (f"if random.random() < self.epsilon: {GREEDY}", "self.epsilon *= 0.99"),
        (f"if np.random.rand() <= self.epsilon: {GREEDY}", "self.epsilon -= self.decay"),
        (
            f"if float(torch.rand(1)) < self.eps: {GREEDY}",
            "self.eps = max(self.least, self.eps * 0.99)",
        ),
        (
            f"drawn = random.random()\n        if not drawn > self.eps: {GREEDY}",
            "self.steps += 1; self.eps = 0.1 + 0.9 * math.exp(-self.steps / 1000)",
        ),
        (f"if self.rng.random() < self.schedule(self.steps): {GREEDY}", "self.steps += 1"),
        (
            (
                "chosen = random.random() > self.eps\n        "
                "return self.model(state).argmax() if chosen else torch.tensor(random.randrange(4))"
            ),
            "self.eps *= 0.99",
        ),
    ],
)
def test_a_chance_that_decides_on_a_call_and_moves_is_found(act: str, after: str) -> None:
    at = next(at for at, line in enumerate(act.splitlines()) if ">" in line or "<" in line)
    assert found(act, after=after) == f"run.py:{8 + at}"


def test_one_that_another_function_moves_is_found_where_it_has_the_same_name() -> None:
    ask = "if random.random() < epsilon: actions = env.sample()\n            "
    ask += "else: actions = agent.model(state)"
    assert found("pass", step=ask, epoch="epsilon = max(0.1, epsilon * 0.99)") == "run.py:20"


@pytest.mark.parametrize(
    ("act", "after"),
    [
        (f"if random.random() < self.epsilon: {GREEDY}", "pass"),  # stays
        (f"if random.random() < 0.1: {GREEDY}", "self.epsilon *= 0.99"),
        (f"if self.loss < self.epsilon: {GREEDY}", "self.epsilon *= 0.99"),  # no chance
        ("if random.random() < self.eps: print(state)", "self.eps *= 0.99"),  # nothing computed
        ("return self.flip if random.random() < self.eps else self.keep", "self.eps *= 0.99"),
        ("return self.flip if random.random() < self.eps else q.argmax()", "self.eps *= 0.99"),
        (
            (
                "told = random.random() < self.eps\n        "
                "return self.truth if told else self.scores.topk(1)[1].squeeze()"
            ),
            "self.eps *= 0.99",
        ),
        (f"p = random.random()\n        if random.random() < p: {GREEDY}", "pass"),
    ],
)
def test_what_stays_or_decides_on_nothing_is_none(act: str, after: str) -> None:
    assert found(act, after=after) == ""


def test_without_a_training_there_is_none() -> None:
    text = "if random.random() < eps: model(x)\neps *= 0.9"
    assert moved_chance(parsed({"run.py": text}, Places(), "run.py")) == ""
