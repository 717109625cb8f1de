"""How many epochs a run has at the most is read from its loop and its options."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.epochs import most_epochs
from autotune.source.program import parsed

PATH = "/p/train.py"
TRAINING = """
EPOCHS = 7
def main(args, count=3):
    {before}
    for epoch in {over}:
        for batch in {batches}:
            loss = model(batch)
            loss.backward()
            optimizer.step()
"""


def epochs(over: str, batches: str = "loader", before: str = "pass") -> int | None:
    text = TRAINING.format(over=over, batches=batches, before=before)
    lines = text.splitlines()
    line = next(number for number, each in enumerate(lines, 1) if "backward" in each)
    program = parsed({PATH: text}, Places(backward=Place(path=PATH, line=line)), PATH)
    return most_epochs(program, {"epochs": 20})


@pytest.mark.parametrize(
    ("over", "found"),
    [
        ("range(args.epochs)", 20),
        ("trange(1, args.epochs)", 19),
        ("range(EPOCHS)", 7),
        ("range(5)", 5),
        ("range(count)", None),  # what it is given
        ("range(args.rounds)", None),
        ("range(0, 10, 2)", None),
        ("itertools.count()", None),
    ],
)
def test_it_is_told_by_the_range_of_the_loop(over: str, found: int | None) -> None:
    assert epochs(over) == found


def test_it_is_not_told_where_an_epoch_is_no_pass_over_a_loader_or_the_option_is_set_later() -> (
    None
):
    assert epochs("range(5)", batches="range(100)") is None
    assert epochs("range(args.epochs)", before="args.epochs = 3") is None


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ("self.loaders.train", 5),
        ("loaders['train']", 5),
        ("enumerate(loader)", 5),
        ("tqdm(enumerate(loader, 1), desc='epoch')", 5),
        ("DataLoader(data, 8)", 5),
        ("zip(range(100), cycle(loader))", None),
        ("enumerate(zip(loader, others))", None),
        ("infinite(loader)", None),
        ("tqdm(infinite(loader))", None),
        ("chain(loader, others)", None),
    ],
)
def test_an_epoch_is_one_pass_over_a_loader(batches: str, found: int | None) -> None:
    assert epochs("range(5)", batches=batches) == found


@pytest.mark.parametrize("bounds", ["", "*bounds", "1, 2, 3"])
def test_a_range_that_tells_nothing(bounds: str) -> None:
    assert epochs(f"range({bounds})") is None


EPOCH = """
def train(net):
    for batch in loader:
        net(batch).backward()

def fit(net):
    for epoch in range(5):
        train(net)

class Trainer:
    def run(self):
        for epoch in range(5):
            for batch in loader:
                net(batch).LATER

"""


@pytest.mark.parametrize(
    ("uses", "found"),
    [
        ("fit(net)", 5),
        ("def main():\n    fit(net)\nmain()", 5),
        ("if __name__ == '__main__':\n    fit(net)\nother.fit(net)", 5),
        ("", 5),
        ("fit(head); fit(net)", None),
        ("train(net); fit(net)", None),
        ("study.optimize(fit)", None),
        ("def main():\n    fit(net)\nmain(); main()", None),
        ("def objective(trial):\n    fit(net)\nstudy.optimize(objective)", None),
        ("study.optimize(lambda trial: fit(net))", None),
        ("found = [fit(net) for net in nets]", None),
        ("for net in nets: fit(net)", None),
        ("def again():\n    fit(net); again()", None),
    ],
)
def test_it_is_of_a_run_only_where_that_comes_to_it_once(uses: str, found: int | None) -> None:
    text = f"{EPOCH}{uses}\n"
    places = Places(backward=Place(path=PATH, line=4))
    assert most_epochs(parsed({PATH: text}, places, PATH), {}) == found


@pytest.mark.parametrize(
    ("uses", "found"), [("Trainer().run()", 5), ("Trainer(a).run(); Trainer(b).run()", None)]
)
def test_a_method_is_told_by_its_name(uses: str, found: int | None) -> None:
    text = f"{EPOCH}{uses}\n".replace("backward", "item").replace("LATER", "backward()")
    places = Places(backward=Place(path=PATH, line=14))
    assert most_epochs(parsed({PATH: text}, places, PATH), {}) == found


@pytest.mark.parametrize(
    ("use", "found"),
    [
        ("fit(net)", 5),  # of another, as far as its file tells
        ("import train\ntrain.fit(net)", 5),
        ("from train import fit\nfit(net)", 5),
        ("from train import fit as trained\ntrained(net); trained(net)", None),
        ("import train\ntrain.fit(net); train.fit(net)", None),
        ("from train import *\nfit(net); fit(net)", None),
        ("def fit(): ...\nfit(); fit()", 5),
    ],
)
def test_another_file_may_come_to_it_too(use: str, found: int | None) -> None:
    texts = {PATH: EPOCH, "/p/main.py": f"{use}\n"}
    places = Places(backward=Place(path=PATH, line=4))
    assert most_epochs(parsed(texts, places, "/p/main.py"), {}) == found
