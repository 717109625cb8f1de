"""What samples are made by is told by name, so that the text can be asked who sets it."""

import pytest

from autotune.source.refusals.whose import MODULE
from tests.traps.conftest import Vet
from tests.traps.programs import PLAIN, stream, table


def test_settings_that_samples_are_made_by_are_told_by_name(workers: Vet) -> None:
    item = 'return X[index] * self.config["scale"] + schedule.level * self.width, Y[index]'
    text = table(item, "self.config, self.width = config, 2").replace(
        "class Table",
        'config = {"scale": 1.0, "rate": 0.1}\n'
        "class Schedule:\n    level = 1.0\n\nschedule = Schedule()\n\nclass Table",
    )
    settings = workers(text, (0, 1)).settings
    found = {(each.name, each.kinds, each.scope) for each in settings if not each.inside}
    assert found == {
        *(("scale", (), ""), ("level", ("Schedule",), ""), ("width", ("Table",), "")),
        *(("config", ("Table",), ""), ("schedule", (), MODULE)),
        *(("X", (), MODULE), ("Y", (), MODULE)),
        ("__getitem__", ("Table",), ""),  # another may be put in its place
        *(
            (name, ("BatchSampler", "Sampler", "Generic"), "")
            for name in ("batch_size", "drop_last")
        ),
    }


def test_attributes_of_a_librarys_object_and_the_environment_are_told_too(workers: Vet) -> None:
    item = 'return augment(X[index]) * float(os.environ.get("NOISE", "1")), Y[index]'
    text = table(item).replace(
        "class Table", "import os\naugment = torch.nn.Dropout(0.0)\n\n\nclass Table", 1
    )
    found = workers(text, (0, 1)).settings
    assert "Dropout" in next(at.kinds for at in found if at.path == "augment.p")
    (of_environment,) = (at for at in found if at.path == "os.environ")
    assert of_environment.scope == MODULE and "NOISE" in of_environment.keys


def test_methods_that_set_an_attribute_of_a_librarys_object_are_told_with_it(workers: Vet) -> None:
    made = "shifts = torch.utils.data.DistributedSampler([0], num_replicas=1, rank=0)"
    text = table("return X[index] + shifts.epoch, Y[index]")
    text = text.replace("class Table", f"{made}\n\n\nclass Table", 1)
    (found,) = (at for at in workers(text, (0, 1)).settings if at.path == "shifts.epoch")
    assert "DistributedSampler" in found.kinds and found.setters == {"set_epoch"}


def test_a_property_of_the_users_that_sets_an_attribute_is_told_with_it(workers: Vet) -> None:
    made = (
        "class Schedule:\n    _level = 1.0\n\n    @property\n    def level(self):\n"
        "        return self._level\n\n    def reset(self, to):\n        self._level = to\n\n"
        "    @level.setter\n    def level(self, to):\n        self._level = to\n\n"
        "schedule = Schedule()\n"
    )
    text = table("return X[index] * schedule.level, Y[index]")
    text = text.replace("class Table", f"{made}\n\nclass Table", 1)
    found = {at.path: at.setters for at in workers(text, (0, 1)).settings}
    assert found["schedule._level"] == {"level"}


def test_an_array_that_another_object_of_the_users_has_too_is_known_by_its_name_there(
    workers: Vet,
) -> None:
    tracker = "class Tracker:\n    def __init__(self):\n        self.hard = torch.ones(8)\n\n"
    prepare = "self.weights = tracker.hard[:4].numpy()"
    text = table("return X[index] * self.weights, Y[index]", prepare)
    text = text.replace("class Table", f"{tracker}tracker = Tracker()\n\n\nclass Table")
    found = workers(text, (0, 2)).settings
    arrays = {(at.path, at.name, at.kinds) for at in found if at.inside}
    assert ("dataset.weights", "hard", ("Tracker",)) in arrays
    assert ("dataset.weights", "weights", ("Table",)) in arrays


@pytest.mark.parametrize(
    ("made", "read"),
    [
        ("@functools.cache\ndef options():\n    return Options()\n", "options().grain"),
        ("@functools.lru_cache(1)\ndef options():\n    return Options()\n", "options().grain"),
        (
            "@functools.cache\ndef options(*i):\n    return X[i] if i else Options()\n\noptions(1)",
            "options().grain",
        ),
        ("kept = Options()\noptions = weakref.ref(kept)\n", "options().grain"),
        ("kept = Options()\noptions = weakref.proxy(kept)\n", "options.grain"),
    ],
)
def test_settings_behind_a_cached_function_or_a_weak_reference(
    workers: Vet, made: str, read: str
) -> None:
    options = f"import functools\nimport weakref\n\nclass Options:\n    grain = 1.0\n\n{made}\n"
    text = table(f"return X[index] * {read}, Y[index]").replace(
        "class Table", f"{options}class Table"
    )
    found = workers(text, (0, 1)).settings
    assert ("grain", ("Options",)) in {(at.name, at.kinds) for at in found}


def test_data_that_are_others_in_each_run_are_not_put_down_to_workers(workers: Vet) -> None:
    text = table("return self.rows[index], Y[index]", "self.rows = torch.rand(640, 4)")
    vetted = workers(
        text.replace("class Table", "torch.manual_seed(time.time_ns())\nclass Table"), (0, 2)
    )
    assert vetted.values == (0,)
    assert "the program as it is was given other data in each of two runs" in vetted.reason


@pytest.mark.parametrize(
    ("drawn", "streams"),
    [
        ("random.random()", ("random",)),
        ("uniform(0, 1)", ("random",)),
        ("np.random.rand()", ("numpy.random",)),
        ("rand()", ("numpy.random",)),
        ("draws.rand()", ("numpy.random",)),
        ("np.random.default_rng(index).random()", ()),
        ("random.Random(index).random()", ()),
        ("float(torch.rand(()))", ()),
    ],
)
def test_whose_random_numbers_samples_are_made_with(
    workers: Vet, drawn: str, streams: tuple[str, ...]
) -> None:
    made = "import random\nfrom random import uniform\nimport numpy as np\n"
    made += "from numpy import random as draws\nfrom numpy.random import rand\n"
    text = table(f"return X[index] + {drawn}, Y[index]")
    text = text.replace("class Table", f"{made}\n\nclass Table", 1)
    assert workers(text, (0, 1)).streams == streams


def test_methods_and_what_a_function_is_given_are_told_by_name(workers: Vet) -> None:
    item = "return self.scaled(shifted(X[index])), Y[index]"
    made = (
        "import contextvars\nimport functools\n"
        "RATE = contextvars.ContextVar('rate', default=1.0)\n"
        "def shift(x, by):\n    return RATE.get() * x + by\n"
        "shifted = functools.partial(shift, by=0.0)\n"
    )
    text = table(item).replace("class Table", f"{made}\n\nclass Table", 1)
    text = text.replace(
        "    def __len__", "    def scaled(self, x):\n        return x\n\n    def __len__"
    )
    found = {(at.name, at.kinds, at.scope, at.inside) for at in workers(text, (0, 1)).settings}
    assert ("scaled", ("Table",), "", False) in found
    assert ("by", (), "", False) in found
    assert ("RATE", (), MODULE, True) in found


def test_what_chooses_samples_is_known_by_name_too(workers: Vet) -> None:
    drill = (
        "class Drill(torch.utils.data.Sampler):\n    def __init__(self):\n"
        "        self.again = []\n\n"
        "    def __iter__(self):\n        for part in torch.randperm(640).split(16):\n"
        "            yield self.again.pop() if self.again else part.tolist()\n\ndrill = Drill()\n"
    )
    text = table(PLAIN, options="batch_sampler=drill").replace("loader =", f"{drill}\nloader =", 1)
    found = workers(text, (0, 2)).settings
    assert ("sampler.again", "again", True) in {(at.path, at.name, at.inside) for at in found}


def test_the_programs_own_functions_that_its_steps_run_are_told_by_their_places(
    workers: Vet,
) -> None:
    made = """\
class Drill(torch.utils.data.Sampler):
    def __iter__(self):
        for part in torch.randperm(640).split(16):
            yield part.tolist()

def mark(x):
    return x

class Listener:
    def after(self, x):
        mark(x)

    def later(self, x):
        mark(x)
"""
    text = table(PLAIN, "self.listener = Listener()", options="batch_sampler=Drill()")
    text = text.replace("class Table", f"{made}\n\nclass Table", 1)
    told = "optimizer.step()\n        getattr(dataset.listener, 'after')(x)"
    text = text.replace("optimizer.step()", told)
    lines = text.splitlines()
    ran = ("def __iter__", "def mark", "def after")  # and no __getitem__
    (*found,) = (lines[at.line - 1].strip() for at in workers(text, (0, 1)).running)
    assert sorted(found) == sorted(
        line.strip() for line in lines if any(each in line for each in ran)
    )


@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_that_makes_samples_stays_with_the_training(workers: Vet, frozen: bool) -> None:
    made = f"teacher = torch.nn.Linear(4, 4).requires_grad_({not frozen})"
    text = table("return teacher(X[index]).detach(), Y[index]")
    found = workers(text.replace("class Table", f"{made}\n\n\nclass Table", 1), (0, 2))
    assert (
        found.values == (0,)
        and "(`teacher`): with workers they would be made by copies" in found.reason
    )


def test_an_optimizer_that_makes_samples_stays_with_the_training(workers: Vet) -> None:
    made = "rate = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)"
    text = table('return X[index] * rate.param_groups[0]["lr"], Y[index]')
    found = workers(text.replace("class Table", f"{made}\n\n\nclass Table", 1), (0, 2))
    assert found.values == (0,)
    assert "(`rate`): with workers they would be made by copies" in found.reason


def test_what_a_stream_is_made_by_is_told_by_name(workers: Vet) -> None:
    body = "for index in range(640):\n    yield X[index] * self.level, Y[index]"
    text = stream(body).replace(
        "class Stream(IterableDataset):", "class Stream(IterableDataset):\n    level = 1.0\n", 1
    )
    found = {(at.name, at.kinds[:1]) for at in workers(text, (0, 1)).settings}
    assert ("level", ("Stream",)) in found


def test_arrays_and_containers_are_known_by_the_variables_that_hold_them(workers: Vet) -> None:
    text = table("return X[index] * self.marks[0], Y[index]", "self.marks = marks")
    text = text.replace("class Table", "marks = [1.0]\n\n\nclass Table", 1)
    found = workers(text, (0, 2)).settings
    names = {(at.path, at.name, at.scope) for at in found if at.inside and at.scope}
    assert {("dataset.marks", "marks", MODULE), ("X", "X", MODULE)} <= names
    assert ("dataset.marks", "marks", ("Table",)) in {(at.path, at.name, at.kinds) for at in found}
