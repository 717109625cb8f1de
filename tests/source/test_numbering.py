"""Tables that number what is new to them, and what changes by which a sample is made."""

import ast

import pytest

from autotune.source.refusals.numbering import changed_on, numbered
from autotune.source.script import Function

DROPPED = "    last = self.drawn.popleft()\n    del self.kept[last]"
DRAWN = ["self.drawn"]
ENDS = "self.n += 1\nif self.n >= len(self):\n    self.n = 0\n"


def function(body: str, given: str = "self, word") -> Function:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    found = ast.parse(f"def __getitem__({given}):\n{lines}").body[0]
    assert isinstance(found, Function)
    return found


@pytest.mark.parametrize(
    ("body", "tables"),
    [
        ("if word not in self.ids:\n    self.ids[word] = len(self.ids)", ["self.ids"]),
        ("self.ids[word] = len(self.ids) + 2", ["self.ids"]),
        ("new = len(self.ids)\nself.ids[word] = new", ["self.ids"]),
        ("return self.ids.setdefault(word, len(self.ids))", ["self.ids"]),
        ("self.ids[word] = self.last\nself.last += 1", ["self.ids"]),
        ("self.words.append(word)\nreturn self.words.index(word)", ["self.words"]),
        ("TABLE[word] = len(TABLE)", ["TABLE"]),
        ("self[word] = len(self)", ["self"]),
        ("ids = {}\nids[word] = len(ids)", []),
        ("word[3] = len(word)", []),  # what it is given, for one sample perhaps
        ("if len(self.kept) < 9:\n    self.kept[word] = load(word)", []),
        ("return self.words.index(word)", []),
        ("self.sizes[word] = len(word)", []),
        ("image = read(word)\nimage /= 255\nself.kept[word] = (image, 3)", []),
    ],
)
def test_tables(body: str, tables: list[str]) -> None:
    assert list(numbered(function(body))) == tables


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("self.n += 1\nreturn rows[self.n % 8]", ["self.n"]),
        ("self.n = self.n + 1\nreturn rows[self.n % 8]", ["self.n"]),
        ("self.n += 1\nif self.n > 8:\n    return rows[0]", ["self.n"]),
        ("self.n += 1\nx = 0 if self.n > 8 else 1\nreturn x", ["self.n"]),
        ("self.n += 1\nif self.n % 8 == 0:\n    print(self.n)", []),
        ("self.seen[word] += 1\nreturn noisy(word, self.seen)", ["self.seen"]),
        ("self.seen.update((word,))\nreturn noisy(word, self.seen.total())", ["self.seen"]),
        ("if word in self.seen:\n    x = 0\nself.seen.add(word)\nreturn x", ["self.seen"]),
        ("self.seen[word] += 1\nself.drawn.append(word)\nreturn word", []),
        ("self.kept.update({word: read(word)})\nreturn self.kept[word]", []),
        ("image = read(word)\nself.kept.append(image)\nreturn self.kept[-1]", []),
        ("self.n += 1\nif self.n % 8 == 0:\n    log.info(f'{self.n}')\n    self.n = 0", []),
        ("self.n += 1\nif self.n < 8:\n    self.kept[word] = word", []),
        ("self.n += 1", []),
        ("with lock:\n    self.n = 0\nfor part in word:\n    self.n += 1\nreturn self.n", []),
        ("self.n += 1\nif self.n == 9:\n    self.n = 0\nreturn rows[self.n]", ["self.n"]),
        ("self.last = 0.9 * self.last + x\nreturn x - self.last", ["self.last"]),
        ("self.file = self.file or open(word)\nreturn self.file.read()", []),
        ("self.n += 1\nif self.n % 8 == 0:\n    mean = self.spent / self.n\n    print(mean)", []),
        ("self.n += 1\nmean = self.n % 8\nprint(mean)\nreturn rows[mean]", ["self.n"]),
        (f"self.drawn.append(word)\nif len(self.drawn) > 8:\n{DROPPED}\nreturn word", []),
        (f"self.drawn.append(word)\nwhile len(self.drawn) > 8:\n{DROPPED}\nreturn word", []),
        (f"self.drawn.append(word)\nif word:\n{DROPPED}\n    word = last\nreturn word", DRAWN),
        ("self.n += 1\nrows = read(word)\ndel rows[self.n % 8]\nreturn rows", ["self.n"]),
        (f"{ENDS}    random.shuffle(self.order)\nreturn rows[self.order[word]]", ["self.n"]),
        (f"{ENDS}    self.other = draw()\nreturn self.other[word]", ["self.n"]),
        (f"{ENDS}    self.other = None\nreturn self.other or word", []),
        (f"{ENDS}    self.told = time()\nreturn word", []),
        (f"{ENDS}    self.x, self.y = self.sample()\nreturn self.x[word]", ["self.n"]),
        (f"{ENDS}    self.order[:] = draw()\nreturn rows[self.order[word]]", ["self.n"]),
        (f"{ENDS}    self.pool = None\nself.pool = self.pool or draw()", ["self.n"]),
        (f"{ENDS}    self.pool = {{}}\nreturn self.pool.get(word)", []),
        (f"{ENDS}    self.pool = dict()\nreturn self.pool.get(word)", []),
        (f"{ENDS}    self.pool[word] = read(word)\nreturn self.pool[word]", []),
        (f"{ENDS}    self.file = h5py.File(word)\nreturn self.file[word]", []),
        (f"{ENDS}    print(now() - self.at)\n    self.at = now()\nreturn word", []),
        (f"{ENDS}    self.at = now()\nprint(f'{{self.at}}')\nreturn word", []),
        ("self.lam = rng.beta(1, 1)\nreturn x * self.lam", []),
        ("table.n += 1\ntable = 3\nreturn rows[table.n]", []),
    ],
)
def test_what_changes(body: str, names: list[str]) -> None:
    assert list(changed_on([function(body)])) == names


@pytest.mark.parametrize(
    ("draws", "names"),
    [
        ("self.other = draw()", ["self.n"]),
        ("random.shuffle(self.other)", ["self.n"]),
        ("self.n = int(time())", []),
        ("self.told = time()\nprint(self.other)", []),
    ],
)
def test_a_method_of_its_own_that_draws_anew_goes_by_what_changes(
    draws: str, names: list[str]
) -> None:
    making = function(f"{ENDS}    self.draw()\nreturn self.other[word]")
    drawing = function(draws, "self")
    drawing.name = "draw"
    assert list(changed_on([making, drawing])) == names


def test_it_is_found_by_what_another_function_makes_by_it() -> None:
    counting, making = function("self.n += 1"), function("return rows[self.n % 8]")
    assert list(changed_on([counting])) == []
    assert list(changed_on([counting, making])) == ["self.n"]
