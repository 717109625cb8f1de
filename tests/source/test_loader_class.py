"""A DataLoader of a class of the program's own, and what is refused along with its workers."""

import pytest

from autotune.source.edits import Accumulate, LoaderArgument, Place, Places
from tests.source.programs import PATH, rewritten, source

WORKERS = LoaderArgument(name="num_workers", code="4")
AHEAD = LoaderArgument(name="prefetch_factor", code="8")


def places_of(text: str) -> Places:
    """The loader is built on the last line, within `super().__init__`."""
    lines = text.splitlines()
    within = next(number for number, line in enumerate(lines, 1) if "super()" in line)
    return Places(
        loader=Place(path=PATH, line=len(lines)), loader_class=Place(path=PATH, line=within)
    )


CLASSES = {
    "hands on what it is given": (
        "def __init__(self, *args, **kwargs): super().__init__(*args, **kwargs)",
        "Own(data, 8)",
        "Own(data, 8, num_workers=4)",
    ),
    "is given it by position": (
        "def __init__(self, data, num_workers=2): super().__init__(data, num_workers=num_workers)",
        "Own(data, 3)",
        "Own(data, 4)",
    ),
    "has it as its default": (
        "def __init__(self, data, num_workers=4): super().__init__(data, num_workers=num_workers)",
        "Own(data)",
        "Own(data)",
    ),
    "keeps it in a dict": (
        "def __init__(self, data, num_workers): super().__init__(data, **self.made(num_workers))",
        "Own(data, num_workers=1)",
        "Own(data, num_workers=4)",
    ),
}


@pytest.mark.parametrize(("constructor", "before", "after"), CLASSES.values(), ids=CLASSES)
def test_a_class_that_takes_it_is_given_it(constructor: str, before: str, after: str) -> None:
    head = f"class Own(DataLoader):\n    {constructor}\n"
    text = f"{head}loader = {before}\n"
    outcome = rewritten(text, WORKERS, places=places_of(text))
    assert outcome.text.removeprefix(head) == f"loader = {after}\n", outcome.outcomes


DERIVED = """
class Base(DataLoader):
    def __init__(self, dataset, batch_size, num_workers=0, **others):
        super().__init__(dataset, batch_size=batch_size, num_workers=num_workers, **others)
class OwnLoader(Base):
    def __init__(self, root, train, batch_size):
        super().__init__(read(root), batch_size)
loader = OwnLoader("data", True, 8)
"""


@pytest.mark.parametrize(
    ("name", "code", "before", "after"),
    [
        ("batch_size", "16", "True, 8)", "True, 16)"),
        ("num_workers", "4", "root), batch_size", "root), batch_size, num_workers=4"),
        ("pin_memory", "True", "root), batch_size", "root), batch_size, pin_memory=True"),
    ],
)
def test_a_class_of_such_a_class_has_arguments_of_its_own(
    name: str, code: str, before: str, after: str
) -> None:
    edit = LoaderArgument(name=name, code=code)
    outcome = rewritten(DERIVED, edit, places=places_of(DERIVED))
    assert outcome.text == DERIVED.replace(before, after), outcome.outcomes


def test_a_class_may_be_chosen_before() -> None:
    text = source("""
        class Own(DataLoader):
            def __init__(self, *args, **kwargs): super().__init__(*args, **kwargs)
        kind = DataLoader if plain else Own
        loader = kind(data, num_workers=2)
        """)
    outcome = rewritten(text, WORKERS, places=places_of(text))
    assert outcome.text == text.replace("num_workers=2", "num_workers=4"), outcome.outcomes


@pytest.mark.parametrize(
    "constructor",
    [
        "def __init__(self, data): super().__init__(data, num_workers=0)",
        "def __init__(self, data, **kwargs): super().__init__(data, num_workers=0, **kwargs)",
    ],
)
def test_a_class_that_decides_it_is_changed_itself(constructor: str) -> None:
    text = f"class Own(DataLoader):\n    {constructor}\nloader = Own(data)\n"
    outcome = rewritten(text, WORKERS, places=places_of(text))
    assert outcome.text == text.replace("num_workers=0", "num_workers=4")


def test_a_class_that_takes_it_among_others_and_drops_it_is_changed_itself() -> None:
    text = source("""
        class Own(DataLoader):
            def __init__(self, data, num_workers, **others):
                super().__init__(data, num_workers=num_workers)
        loader = Own(data, num_workers=2)
        """)
    persistent = LoaderArgument(name="persistent_workers", code="True")
    outcome = rewritten(text, persistent, places=places_of(text))
    handing_on = "num_workers=num_workers, persistent_workers=num_workers > 0)"
    assert handing_on in outcome.text and "Own(data, num_workers=2)" in outcome.text


def test_where_it_is_built_by_a_name_in_a_config_the_class_is_changed() -> None:
    text = source("""
        class Own(DataLoader):
            def __init__(self, data, num_workers):
                super().__init__(data, **options(num_workers))
        loader = getattr(module, config["loader"])(**config["arguments"])
        """)
    outcome = rewritten(text, WORKERS, places=places_of(text))
    assert 'super().__init__(data, **{**options(num_workers), "num_workers": 4})' in outcome.text


def test_its_batches_are_not_divided() -> None:
    text = source("""
        class Own(DataLoader):
            def __init__(self, data): super().__init__(data, 8)
        loader = Own(data)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """)

    def line(sign: str) -> Place:
        return Place(path=PATH, line=1 + text[: text.index(sign)].count("\n"))

    places = Places(
        loader=line("loader = "),
        loader_class=line("super()"),
        backward=line("loss.backward"),
        step=line("optimizer.step"),
    )
    outcome = rewritten(text, Accumulate(steps=2), places=places)
    assert outcome.statuses == ["refused"]
    assert "class of the program's own" in outcome.reason


def test_what_needs_workers_is_refused_with_them() -> None:
    text = "loader = DataLoader(*given)\n"
    places = Places(loader=Place(path=PATH, line=1))
    outcome = rewritten(text, WORKERS, AHEAD, places=places)
    assert outcome.text == text
    assert outcome.statuses == ["refused", "refused"]
