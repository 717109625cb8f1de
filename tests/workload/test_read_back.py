"""What making a batch leaves behind is found where another part of the program reads it."""

from pathlib import Path

import pytest

from autotune.workload.program.target import OBJECTS, Target, load_target
from autotune.workload.samples.delivery import Left, LeftAttribute, LeftVariable
from autotune.workload.samples.read_back import read_back

KNOWN = frozenset({"collate_fn"})
MIX = "class Mix:\n    def __call__(self, x):\n        return self.lam\n"
GIVEN = MIX + "mix = Mix()\n"
READ = {
    "by the loop": (GIVEN + "loss = mix.lam * 2\n", "`mix.lam` (train.py:5)"),
    "of something inside it": (GIVEN + "mix.lam[0] = 1\n", "`mix.lam` (train.py:5)"),
    "by its name": (GIVEN + "getattr(mix, 'lam', 1)\n", "`getattr(mix, 'lam', 1)` (train.py:5)"),
    "the first of two": (GIVEN + "if all:\n    (mix.lam + 1) ** 2\nmix.lam\n", "(train.py:6)"),
    "of what a loader is given": (
        "loader = DataLoader(data, collate_fn=given)\nprint(given.lam)\n",
        "`given.lam` (train.py:2)",
    ),
    "of the loader's": ("loader.collate_fn.lam\n", "`loader.collate_fn.lam` (train.py:1)"),
    "of a parameter": (
        GIVEN + "def loss(out, m): return m.lam\nloss(1, mix)\n",
        "`m.lam` (train.py:5)",
    ),
    "of a keyword": (GIVEN + "def loss(m): return m.lam\nloss(m=mix)\n", "`m.lam` (train.py:5)"),
    "of another's attribute": (
        GIVEN + "class Loop:\n    def __init__(self, mix): self.m = mix\n"
        "    def loss(self): return self.m.lam\n",
        "`self.m.lam` (train.py:7)",
    ),
    "of an object in a module": (
        GIVEN + "import mixing\nprint(mixing.mix.lam)\n",
        "`mixing.mix.lam` (train.py:6)",
    ),
    "of the class": (GIVEN + "Mix.lam\n", ""),  # it is the object's
    "by its own methods": (GIVEN, ""),
    "by one that is called": (
        "import mixes\n\nclass Mix:\n    def mean(self): return self.lam\nmix.mean()\n",
        "`self.lam` (train.py:4)",
    ),
    "by one that nobody calls": (
        "import mixes\n\nclass Mix:\n    def mean(self): return self.lam\n",
        "",
    ),
    "by a method of Python's": (
        "class Mix:\n    def __repr__(self): return self.lam\nx.__repr__()\n",
        "",
    ),
    "of another class": (
        "import nets\n\nclass Net:\n    def mean(self): return self.lam\nmix.mean()\n",
        "",
    ),
    "of others": (GIVEN + "args.lam, state.lam, batch.lam, np.lam, optimizer.lam()\n", ""),
    "to be cleared": (GIVEN + "mix.lam.clear()\n", ""),
    "to be closed where it is open": (
        GIVEN + "if mix.lam is not None:\n    mix.lam.close()\n    mix.lam = None\n",
        "",
    ),
    "by its own method to be closed": (
        "import mixes\nclass Mix:\n    def close(self): self.lam and self.lam.close()\nm.close()\n",
        "",
    ),
    "to close something else": (
        GIVEN + "if mix.lam is not None:\n    mix.lam.close()\n    log.close()\n",
        "`mix.lam` (train.py:5)",
    ),
    "set": (GIVEN + "mix.lam = 1.0\n", ""),
    "another": (GIVEN + "mix.alpha\n", ""),
}


@pytest.mark.parametrize(("text", "place"), READ.values(), ids=READ)
def test_attributes_are_read_of_the_object_that_has_them(
    tmp_path: Path, text: str, place: str
) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    lam = LeftAttribute(name="lam", kinds=("Mix",), known_as=KNOWN)
    found = read_back(load_target(file), Left(attributes=(lam,), makers=_makers(file, 2)))
    assert found.endswith(place) and bool(found) == bool(place)


def test_a_trainer_that_collates_is_read_by_methods_that_a_framework_calls(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "class Task(LightningModule):\n"
        "    def collate(self, items):\n        self.lam = 0.5\n        return self.lam * items\n"
        "    def training_step(self, batch):\n        return self.lam * batch\n"
    )
    lam = LeftAttribute(name="lam", kinds=("Task",), known_as=KNOWN, collates=True)
    left = Left(attributes=(lam,), makers=_makers(file, 2))
    assert read_back(load_target(file), left) == "`self.lam` (train.py:6)"


def test_what_makes_batches_reads_its_own_wherever_that_lies(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "class Data(Dataset):\n    @checked\n    def __getitem__(self, i):\n"
        "        return self.aug(i, params=self.aug._params)\n"
    )
    params = LeftAttribute(name="_params", kinds=("Flip",), known_as=frozenset({"aug"}))
    assert read_back(load_target(file), Left(attributes=(params,)))
    assert not read_back(load_target(file), Left(attributes=(params,), makers=_makers(file, 2)))


SETS = "lam = 1.0\ndef collate(batch):\n    global lam\n    lam = 0.5\n    return lam\n"
AROUND = (
    "def main():\n    lam = 1.0\n    def collate(batch):\n        nonlocal lam\n        lam = 0.5\n"
)


@pytest.mark.parametrize(
    ("text", "maker", "how", "place"),
    [
        (SETS + "loss = lam * 2\n", 2, "replaced", "`lam` (train.py:6)"),
        (SETS + "def train(): return lam\n", 2, "replaced", "`lam` (train.py:6)"),
        (SETS + "def train(lam): return lam\n", 2, "replaced", ""),
        (SETS, 2, "replaced", ""),
        (AROUND + "    return lam * 2\n", 3, "enclosed", "`lam` (train.py:6)"),
        (AROUND + "def other():\n    lam = 1\n    return lam\n", 3, "enclosed", ""),
        ("def collate(b):\n    lam.append(1)\nprint(lam)\n", 1, "by_item", ""),
        ("def collate(b):\n    lam.append(1)\nlam[-1]\n", 1, "by_item", "`lam` (train.py:3)"),
        ("def collate(b):\n    lam['a'] = 1\nlam.get('a')\n", 1, "by_item", "`lam` (train.py:3)"),
        ("def collate(b):\n    lam[b] = 1\n    return lam[b]\n", 1, "by_item", ""),
    ],
)
def test_variables_are_read_outside_of_what_makes_batches(
    tmp_path: Path, text: str, maker: int, how: str, place: str
) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    flags = {how: True, "replaced": how != "by_item"}
    lam = LeftVariable(name="lam", files=frozenset({str(file)}), **flags)
    left = Left(variables=(lam,), makers=_makers(file, maker))
    assert read_back(load_target(file), left) == place


def test_variables_of_other_modules_are_read_through_them(tmp_path: Path) -> None:
    data, file = tmp_path / "data.py", tmp_path / "train.py"
    data.write_text(SETS)
    files = frozenset({str(data)})
    replaced = Left(
        variables=(LeftVariable(name="lam", files=files, replaced=True),), makers=_makers(data, 2)
    )
    filled = Left(variables=(LeftVariable(name="lam", files=files),), makers=_makers(data, 2))
    file.write_text("import data\nloss = data.lam * 2\nother.lam\n")
    assert read_back(load_target(file), replaced) == "`data.lam` (train.py:2)"
    file.write_text("from data import lam\nloss = lam * 2\n")  # it keeps what it was at first
    assert read_back(load_target(file), replaced) == ""
    assert read_back(load_target(file), filled) == "`lam` (train.py:2)"


def test_modules_that_the_program_imports_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text("\n\ndef loss(mix): return mix.lam\n")
    file = tmp_path / "train.py"
    file.write_text("from loop import loss\nloss(collate_fn)\n")
    lam = LeftAttribute(name="lam", kinds=("Mix",), known_as=KNOWN)
    assert read_back(load_target(file), Left(attributes=(lam,))) == "`mix.lam` (loop.py:3)"
    assert not read_back(load_target(file), Left())
    objects = Target(kind=OBJECTS, path="", files=(str(file), "<stdin>"))
    assert read_back(objects, Left(attributes=(lam,))) == "`mix.lam` (loop.py:3)"


def _makers(file: Path, line: int) -> frozenset[tuple[str, int]]:
    return frozenset({(str(file), line)})
