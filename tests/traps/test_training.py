"""A training is held to its losses where workers read for it, all random numbers being the same."""

import functools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.untimed import trained
from autotune.measurement.untimed.trained import (
    Trained,
    given_another_at,
    parts_at,
    why_not_living_on,
    why_not_trained,
)
from tests.traps.conftest import Bench
from tests.traps.programs import table

ITEM = "return X[index] + 0.1 * torch.rand(4) + random.random() + np.random.rand(), Y[index]"
SHORT = "batch_size=16, shuffle=True"
# Its loop draws from the streams that reading draws from, and so does its model.
PLAIN = (
    table(ITEM, options=SHORT, size=96)
    .replace("nn.Linear(4, 2)", "nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 2))")
    .replace("optimizer.zero_grad()", "x = x + torch.rand(4) * np.random.rand()\n        {step}")
)
BATCHES = """
class Batches:
    def __init__(self):
        self.latest = []

    def __len__(self):
        return 6

    def __iter__(self):
        for start in range(0, 96, 16):
            self.latest[:] = range(start, start + 16)
            yield list(self.latest)

batches = Batches()
loader = DataLoader"""


OWN = "loader = DataLoader(dataset, batch_size=16, shuffle=True)"


def program(before: str = "", *, loader: str = OWN) -> str:
    """The plain one, with something done before each step, and another loader."""
    step = f"optimizer.zero_grad(); {before}".rstrip("; ")
    return PLAIN.replace("{step}", step).replace(OWN, loader)


CHOSEN = f"{BATCHES.strip()}(dataset, batch_sampler=batches)"
LOOKING = program("x = x * (1 + torch.tensor(batches.latest)[:, None] % 7)", loader=CHOSEN)
# What it trains on decides what it is given next.
CHOOSING = program(
    "batches.latest[:] = y.tolist()",
    loader=CHOSEN.replace(
        "range(start, start + 16)", "[(start + each + sum(self.latest)) % 96 for each in range(16)]"
    ),
)
IN_EPOCH = "    for x, y in loader:"
LABELLED = program().replace(
    IN_EPOCH, f"    Y[:96] = (X[:96].sum(1) > epoch % 3 - 1).long()\n{IN_EPOCH}"
)
# A sample is a batch of a loader of its class, in an order of its own.
NESTED = program().replace(
    OWN,
    """
class Nested(Dataset):
    def __init__(self):
        self.loaders = [
            DataLoader(list(zip(X[at::8], Y[at::8])), batch_size=3, shuffle=True)
            for at in range(8)
        ]

    def __len__(self):
        return 96

    def __getitem__(self, index):
        x, y = next(iter(self.loaders[index % 8]))
        return x[0], y[0]

loader = DataLoader(Nested(), batch_size=16, shuffle=True)
""".strip(),
)
WALK = """
class Walk:
    def __init__(self):
        self.todo = []

    def __len__(self):
        return 6

    def __iter__(self):
        for _ in range(6):
            self.todo = self.todo or torch.randperm(96).tolist()
            yield [self.todo.pop() for _ in range(16)]

loader = DataLoader"""
STEP = "optimizer.step()"
OTHERWISE = program("x = x + time.perf_counter() % 1")

Alike = Callable[[str], Callable[..., ProcessRun]]


@pytest.fixture
def alike(bench: Callable[[str], Bench]) -> Alike:
    """Starts a program given as text, its loaders reading alike."""

    def start(text: str) -> Callable[..., ProcessRun]:
        made = bench(text)
        made.observe()
        return functools.partial(made.start, alike=True)

    return start


@pytest.mark.parametrize(
    "text",
    [program(), OTHERWISE, LABELLED, NESTED],
    ids=["plain", "clock", "labels", "loaders in the dataset"],
)
def test_workers_may_read_for_a_training_that_is_the_same_or_never_is(
    alike: Alike, text: str
) -> None:
    assert why_not_trained(alike(text), 2, steady=True, seconds=1.0) == ""


def test_a_loop_that_looks_at_what_was_chosen_last_is_found_out(alike: Alike) -> None:
    why = why_not_trained(alike(LOOKING), 2, steady=True, seconds=1.0)
    assert "on the same batches the loss of step 1 is" in why


def test_samples_that_depend_on_the_training_are_found_out(alike: Alike) -> None:
    why = why_not_trained(alike(CHOOSING), 2, steady=True, seconds=1.0)
    assert "batch 2 of the training comes out different" in why
    # What reading leaves may give workers other data, but nothing else to choose.
    why = why_not_trained(alike(CHOOSING), 2, steady=False, seconds=1.0)
    assert "batch 2 of the training has other samples" in why


@pytest.mark.parametrize("left", [True, False])
def test_choosing_that_goes_on_where_an_epoch_was_left_is_found_out(
    alike: Alike, left: bool
) -> None:
    text = program(loader=f"{WALK.strip()}(dataset, batch_sampler=Walk())")
    text = text.replace(IN_EPOCH, "    for n, (x, y) in enumerate(loader, 1):")
    text = text.replace(STEP, f"{STEP}\n        if n == 4: break") if left else text
    why = why_not_trained(alike(text), 2, steady=False, seconds=1.0)
    assert ("batch 5 of the training has other samples" in why) is left


def test_workers_that_never_saw_what_the_training_changes_are_found_out(alike: Alike) -> None:
    text = program("X *= 0.9", loader=OWN.replace(")", ", num_workers=2)"))
    why = why_not_trained(alike(text), 0, steady=True, seconds=1.0)
    assert "batch 2 of the training comes out different" in why


def test_a_file_that_is_kept_for_good_without_workers_is_found_out(
    alike: Alike, tmp_path: Path
) -> None:
    scale = repr(str(tmp_path / "scale"))
    text = program(loader=f"kept = {{}}\n{OWN.replace(')', ', num_workers=1)')}")
    text = text.replace(
        "return X[index]", f"return X[index] * kept.setdefault(0, len(open({scale}).read()))"
    )
    text = text.replace(IN_EPOCH, f"    open({scale}, 'w').write('x' * (1 + epoch))\n{IN_EPOCH}")
    compare = functools.partial(why_not_trained, alike(text), 0, steady=True, seconds=1.0)
    assert "batch 7 of the training comes out different" in compare()
    short = functools.partial(alike(text), epoch_batches=2)
    assert "batch 3 of the training" in compare(sooner=short)


def test_what_the_training_changes_late_is_found_out_where_it_comes_sooner(
    alike: Alike,
) -> None:
    late = program("X.mul_(0.9 if (steps := len(seen)) % 300 == 299 else 1); seen.append(steps)")
    late = late.replace(OWN, f"seen = []\n{OWN}")
    start = alike(late)
    compare = functools.partial(why_not_trained, start, 2, steady=True, seconds=1.0)
    assert compare() == ""
    why = compare(sooner=functools.partial(start, text=late.replace("300 == 299", "3 == 2")))
    assert "batch 4 of the training, in a run with its later stages brought forward," in why


@pytest.mark.parametrize(("text", "said"), [(program(), ""), (CHOOSING, "batch 2")])
def test_a_training_that_fails_where_that_comes_sooner_is_compared_as_it_is(
    alike: Alike, text: str, said: str
) -> None:
    start = alike(text)
    sooner = functools.partial(start, text="raise ValueError")
    why = why_not_trained(start, 2, steady=True, seconds=1.0, sooner=sooner)
    assert said in why if said else why == ""
    assert "brought forward" not in why


@pytest.mark.parametrize(
    ("text", "said"), [(program(), ""), (CHOOSING, "batch 2")], ids=["plain", "choosing"]
)
def test_a_training_whose_losses_nobody_sees_is_held_to_its_batches(
    alike: Alike, text: str, said: str
) -> None:
    taught = "nn.functional.cross_entropy(model(x), y).backward()"
    assert taught in text
    own = "model(x); [setattr(each, 'grad', each.detach()) for each in model.parameters()]"
    began = time.monotonic()
    why = why_not_trained(alike(text.replace(taught, own)), 2, steady=True, seconds=1.0)
    assert said in why if said else why == ""
    assert time.monotonic() - began < 60


def test_workers_may_live_on_where_epochs_are_the_same(alike: Alike) -> None:
    assert why_not_living_on(alike(program()), 2, seconds=3.0) == ""


@pytest.mark.slow
def test_workers_that_hang_in_the_training_are_not_waited_for_long(
    alike: Alike, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trained, "STEP_SECONDS", 0.1)
    stuck = "get_worker_info() and time.sleep(99 * (index == 40)); return X[index], Y[index]"
    text = table(stuck, options="batch_size=16", size=96)
    began = time.monotonic()
    assert why_not_trained(alike(text), 2, steady=True, seconds=1.0) == ""
    assert time.monotonic() - began < 60


def test_random_numbers_of_a_datasets_own_are_found_to_go_on(alike: Alike) -> None:
    own = table(
        "return X[index] + self.rng.normal(), Y[index]", "self.rng = np.random.default_rng(0)"
    )
    start = functools.partial(alike(own), epoch_batches=2)
    why = why_not_living_on(start, 2, seconds=3.0)
    assert why.startswith("batch 3 of the training comes out different")


def test_workers_may_live_on_with_what_they_keep(alike: Alike) -> None:
    kept = table("return self.kept.setdefault(index, X[index]), Y[index]", "self.kept = {}")
    start = functools.partial(alike(kept), epoch_batches=2)
    assert why_not_living_on(start, 2, seconds=3.0) == ""


def test_labels_that_are_written_between_epochs_are_found_out(alike: Alike) -> None:
    why = why_not_living_on(alike(LABELLED), 2, seconds=3.0)
    assert "batch 7 of the training comes out different" in why


def test_labels_that_are_written_in_a_later_epoch_are_found_out_as_epochs_are_short(
    alike: Alike,
) -> None:
    late = program().replace(IN_EPOCH, f"    Y[:96] = int(epoch >= 3)\n{IN_EPOCH}")
    start = functools.partial(alike(late), epoch_batches=1)
    why = why_not_living_on(start, 2, seconds=3.0)
    assert "batch 4 of the training comes out different" in why


def course(losses: str, given: str, drawn: str = "1234") -> Trained:
    return Trained(
        losses=[float(each) for each in losses.split()],
        drawn=[int(each) for each in drawn][: len(losses.split())],
        given=tuple(map(ord, given)),
    )


@pytest.mark.parametrize(
    ("losses", "given", "step", "batch"),
    [
        ("4 3 2 1", "abcd", None, None),
        ("4 3", "ab", None, None),
        ("4 3 2.5 1", "abcd", 3, None),
        ("4 3 2.5 1", "abxd", None, 3),
        ("4 3 2.5 1", "abcx", 3, 4),
        ("4 3.00001 2.5 1", "abcd", None, None),  # by rounding first
        ("4 nan 2.5 1", "abcd", None, None),
    ],
)
def test_losses_part_where_the_batches_are_the_same(
    losses: str, given: str, step: int | None, batch: int | None
) -> None:
    own, other = course("4 3 2 1", "abcd"), course(losses, given)
    assert (parts_at(own, other), given_another_at(own, other)) == (step, batch)


def test_those_that_draw_otherwise_are_not_compared() -> None:
    own, other = course("4 3 2 1", "abcd"), course("4 3 1 1", "abxd", "1244")
    assert (parts_at(own, other), given_another_at(own, other)) == (None, None)
