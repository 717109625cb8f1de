"""A DataLoader that `functools.partial` builds."""

import pytest

from autotune.source.edits import LoaderArgument, Place, Places
from tests.source.programs import PATH, rewritten, source

WORKERS = LoaderArgument(name="num_workers", code="4")
NO_WORKERS = LoaderArgument(name="num_workers", code="0")
KEPT = LoaderArgument(name="persistent_workers", code="True")


def built(text: str, *edits: LoaderArgument):
    """`text`, whose loader is built on the line that ends in a comment saying so."""
    lines = source(text).splitlines()
    line = next(number for number, line in enumerate(lines, 1) if line.endswith("# here"))
    places = Places(loader=Place(path=PATH, line=line))
    outcome = rewritten(source(text), *edits, places=places)
    if outcome.statuses[0] == "done":
        again = rewritten(outcome.text, *edits, places=places)
        assert set(again.statuses) == {"already"}, again.text
    return outcome


ALONE = {
    "bound to a name": """
        make = functools.partial(DataLoader, batch_size=8)
        train = make(data, shuffle=True)  # here
        """,
    "at once": "train = partial(DataLoader, batch_size=8)(data)  # here\n",
    "an attribute": """
        class Trainer:
            def __init__(self):
                self.make = partial(torch.utils.data.DataLoader, batch_size=8)

            def train(self):
                for x in self.make(self.data):  # here
                    pass
        """,
    "passed by name": """
        def fit(model, make_loader=None):
            loader = make_loader(model.data)  # here

        fit(net, make_loader=partial(DataLoader, batch_size=8))
        """,
    "passed by position, and kept": """
        class Trainer:
            def __init__(self, model, loader_fn):
                self.build = loader_fn

            def fit(self):
                self.loader = self.build(self.data)  # here

        made = partial(DataLoader, batch_size=8)
        Trainer(net, made).fit()
        """,
    "a default": """
        def fit(data, make=partial(DataLoader, batch_size=8)):
            return make(data)  # here
        """,
    "a field": """
        @dataclass
        class Config:
            make: Callable
            lr: float = 0.1

        config = Config(partial(DataLoader, batch_size=8))
        loader = config.make(data)  # here
        """,
    "a static method's parameter": """
        class Loaders:
            @staticmethod
            def build(make, data, others=partial(DataLoader, batch_size=4)):
                return make(data)  # here

        Loaders.build(partial(DataLoader, batch_size=8), data)
        """,
    "by the name of a loader": """
        Loader = partial(DataLoader, batch_size=8)
        loader = Loader(data)  # here
        """,
}


@pytest.mark.parametrize("text", ALONE.values(), ids=ALONE)
def test_a_partial_that_builds_nothing_else_is_given_it(text: str) -> None:
    outcome = built(text, WORKERS)
    assert outcome.statuses == ["done"], outcome.reason
    assert outcome.text == source(text).replace("batch_size=8", "batch_size=8, num_workers=4")
    outcome = built(text.replace("batch_size=8", "batch_size=8, num_workers=2"), NO_WORKERS)
    assert outcome.text == source(text).replace("batch_size=8", "batch_size=8, num_workers=0")


CALLED = {
    "is used again": ("batch_size=8", "data", "other = make(more)"),
    "is handed to a library": ("batch_size=8", "data", "others = list(map(make, more))"),
    "is given it where it is called": ("batch_size=8, num_workers=0", "data, num_workers=1", ""),
    "is given workers' arguments there": ("batch_size=8, num_workers=1", "data, timeout=5", ""),
}


@pytest.mark.parametrize(("given", "call", "more"), CALLED.values(), ids=CALLED)
def test_else_the_call_is_given_it(given: str, call: str, more: str) -> None:
    text = f"make = partial(DataLoader, {given})\nloader = make({call})  # here\n{more}\n"
    outcome = built(text, WORKERS)
    assert outcome.statuses == ["done"], outcome.reason
    told = call.replace(", num_workers=1", "") + ", num_workers=4"
    assert outcome.text == text.replace(f"make({call})", f"make({told})")


def test_what_the_partial_says_already_is_known_where_it_is_called() -> None:
    text = """
        make = partial(DataLoader, {})
        loader = make(data)  # here
        other = make(more)
        """
    said = "num_workers=4, prefetch_factor=8"
    assert built(text.format(said), WORKERS).statuses == ["already"]
    outcome = built(text.format(said), NO_WORKERS)
    assert "make(data, num_workers=0, prefetch_factor=None)  # here" in outcome.text
    assert built(text.format(said), KEPT).text.count("make(data, persistent_workers=True)") == 1
    option = built(text.format("num_workers=args.j"), WORKERS)
    assert option.reason == "it was args.j, which has no effect here any more"
    for given, code in (("num_workers=args.j", "args.j"), ("**kw", 'kw.get("num_workers")')):
        refused = built(text.format(given), KEPT)
        assert refused.reason == f"the number of workers is {code}, and may be 0"


HAND_STEP = f"{PATH}:{{}}: functools.partial(DataLoader, ..., num_workers=4)"
BY_HAND = {
    "a dict": ("make = {'a': partial(DataLoader)}\nloader = make['a'](data)  # here\n", 1),
    "a function that returns it": (
        "def get():\n    return partial(DataLoader)\nloader = list(map(get(), sets))  # here\n",
        2,
    ),
    "what may be another, beside others": (
        "make = own_loader\nmake = partial(DataLoader)\nloader = make(data)  # here\nmake(more)\n",
        2,
    ),
}


@pytest.mark.parametrize(("text", "line"), BY_HAND.values(), ids=BY_HAND)
def test_else_a_person_is_told_the_line_of_the_partial(text: str, line: int) -> None:
    outcome = built(text, WORKERS)
    assert outcome.text == text
    assert outcome.hand_step == HAND_STEP.format(line)


def test_which_of_two_partials_is_called_cannot_be_told() -> None:
    text = "make = partial(DataLoader)\nmake = partial(DataLoader)\nloader = make(data)  # here\n"
    outcome = built(text, WORKERS)
    assert "which of several" in outcome.reason
    assert outcome.hand_step == f"{PATH}:3: DataLoader(..., num_workers=4)"


def test_a_partial_of_another_loader_is_none_of_the_one_that_is_built_by_its_class() -> None:
    text = "make = partial(DataLoader)\nmade = make(more)\nloader = DataLoader(data)  # here\n"
    outcome = built(text, WORKERS)
    assert outcome.text == text.replace("DataLoader(data)", "DataLoader(data, num_workers=4)")
