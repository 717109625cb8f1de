"""A checkpoint's state is told of a fused optimizer only where it may be loaded into one."""

import pytest

from autotune.source.edits import OptimizerArgument, Place, Places
from autotune.source.rewrite import rewrite
from tests.source.programs import source

FUSED = OptimizerArgument(name="fused", code="True")
TUNED, OTHER = "/project/td3.py", "/project/ddpg.py"
AGENT = """
import torch

class {name}{bases}:
    def __init__(self, actor):
        self.opt = {built}

    def load(self, path):
        self.opt.load_state_dict(torch.load(path))
"""
ADAM = "torch.optim.Adam(actor.parameters())"


def agent(name: str, built: str = ADAM, bases: str = "") -> str:
    return source(AGENT).format(name=name, built=built, bases=bases)


def told(tuned: str, other: str, line: int = 5) -> tuple[bool, bool]:
    """Whether the tuned file and the other one tell their checkpoints of a fused optimizer."""
    place = Places(optimizer=Place(path=TUNED, line=line))
    done = rewrite({TUNED: tuned, OTHER: other}, [("fused", FUSED)], place, main=TUNED)
    assert [outcome.status for outcome in done.outcomes] == ["done"], done.outcomes
    first, second = (".update(fused=True" in done.sources[path] for path in (TUNED, OTHER))
    return first, second


def test_another_class_loads_an_optimizer_that_stays_what_it_was() -> None:
    assert told(agent("TD3"), agent("DDPG")) == (True, False)


def test_two_classes_of_one_file_load_their_own() -> None:
    both = agent("TD3") + agent("DDPG")
    place = Places(optimizer=Place(path=TUNED, line=5))
    done = rewrite({TUNED: both}, [("fused", FUSED)], place)
    assert done.sources[TUNED].index("update(fused") < done.sources[TUNED].index("class DDPG")
    assert done.sources[TUNED].count("update(fused") == 1


LOADING = """
class Loads:
    def load(self, path):
        self.opt.load_state_dict(torch.load(path))
"""
BUILDING = """
class Builds(Loads):
    def __init__(self, actor):
        self.opt = torch.optim.Adam(actor.parameters())
"""


@pytest.mark.parametrize(
    ("tuned", "other"),
    [
        (BUILDING, LOADING),
        (BUILDING.replace("(Loads)", ""), LOADING.replace("Loads", "Loads(Builds)")),
        (BUILDING.replace("(Loads)", ""), f"{LOADING}class Both(Builds, Loads):\n    pass\n"),
    ],
)
def test_a_load_that_is_inherited_or_inherits_is_of_the_optimizer(tuned: str, other: str) -> None:
    assert told(source(tuned), source(other), line=3) == (False, True)


def test_a_load_by_what_builds_no_optimizer_may_be_of_the_one_that_is_changed() -> None:
    tuned = f"opt = {ADAM}\nagent = Agent(opt)\nagent.load(path)\n"
    for given in ("actor", "None", "make(actor)"):
        assert told(tuned, agent("Agent", given), line=1) == (False, True), given
    assert told(tuned, agent("Agent"), line=1) == (False, False)


FUNCTION = """
def resume(path, opt=None):
    {}
    opt.load_state_dict(torch.load(path))
"""


@pytest.mark.parametrize(
    ("code", "may_be"),
    [
        ("pass", True),  # it is handed over
        ("for opt in optimizers: pass", True),
        ("opt = torch.optim.SGD(net.parameters())", False),
        ("net, opt = make_net()", False),
        ("net, opt = make()", True),
    ],
)
def test_a_variable_is_what_its_function_gives_it(code: str, may_be: bool) -> None:
    tuned = f"def make():\n    return net, {ADAM}\nnet, opt = make()\nopt = opt\nopt.step()\n"
    makes = "def make_net():\n    net = Net()\n    return net, torch.optim.Adam(net.parameters())\n"
    other = source(FUNCTION).format(code)
    if code != "pass":
        other = other.replace(", opt=None", "")
    seen = Places(optimizer=Place(path=TUNED, line=2), step=Place(path=TUNED, line=5))
    done = rewrite({TUNED: tuned, OTHER: makes + other}, [("fused", FUSED)], seen, main=TUNED)
    assert ("update(fused=True" in done.sources[OTHER]) == may_be


HANDED_OVER = """
class Warm:
    def __init__(self, optimizer):
        self.inner = optimizer

    def load_state_dict(self, state):
        self.rate = state["rate"]

def warm(net):
    return Warm(torch.optim.SGD(net.parameters(), lr=0.1))

class Trainer:
    def __init__(self, net, optimizer):
        self.optimizer = optimizer

    def resume(self, path):
        self.optimizer.load_state_dict(torch.load(path))

def resume(path, optimizer):
    optimizer.load_state_dict(torch.load(path))

"""


@pytest.mark.parametrize(
    ("made", "may_be"),
    [
        ("Trainer(net, Warm({}))\nresume(path, Warm({}))", False),
        ("held = Warm({})\nTrainer(net, optimizer=held)\nresume(path, held)", False),
        ("held = warm(net)\nTrainer(net, held)\nresume(path, held)", False),
        ("held = {}\nTrainer(net, held)\nresume(path, held)", True),
        ("held = {}\nTrainer(net, *held)\nresume(path, *held)", True),
    ],
)
def test_what_holds_the_optimizer_may_be_handed_over(made: str, may_be: bool) -> None:
    text = HANDED_OVER + made.replace("{}", "torch.optim.SGD(net.parameters(), lr=0.1)") + "\n"
    line = next(at for at, each in enumerate(text.splitlines(), 1) if ".SGD(" in each)
    built = line if "warm(" in made else 1 + HANDED_OVER.count("\n")
    step = Place(path=TUNED, line=1 + text.count("\n"))
    seen = Places(optimizer=Place(path=TUNED, line=built), step=step)
    done = rewrite({TUNED: f"{text}optimizer.step()\n"}, [("fused", FUSED)], seen)
    assert [outcome.status for outcome in done.outcomes] == ["done"], done.outcomes
    assert done.sources[TUNED].count(".update(fused=True") == 2 * may_be
