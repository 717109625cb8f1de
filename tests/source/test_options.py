"""Which branches of a program its options leave out."""

import pytest

from autotune.source.edits import Place
from autotune.source.options import without_left_out

OPTIONS = {"mixup": False, "warmup": 0, "mode": "plain", "teacher": None, "depth": 3}


def left(text: str, *lines: int, **options: object) -> str:
    places = [Place(path="/a.py", line=line) for line in lines]
    return without_left_out({"/a.py": text}, OPTIONS | options, places)["/a.py"]


@pytest.mark.parametrize(
    ("test", "comes", "other_comes"),
    [
        ("args.mixup", False, True),
        ("not self.args.mixup", True, False),
        ("args.mixup and epoch > 3", False, True),
        ("args.mixup or epoch > 3", True, True),
        ("epoch > 3 or args.depth", True, False),
        ("args.warmup > 0 and step < args.warmup", False, True),
        ("args.teacher is not None", False, True),
        ("args.mode == 'other'", False, True),
        ("args.mode in ('plain', 'other')", True, False),
        ("args.mode in ('plain', kind)", True, True),
        ("args.teacher > 3", True, True),
        ("args.unknown", True, True),
        ("mixup", True, True),
        ("OFTEN", True, False),
        ("TWICE", True, True),
        ("args.mixup()", True, True),
        ("1 < args.depth < 2", True, True),
    ],
)
def test_a_branch_is_left_out_where_the_options_tell(
    test: str, comes: bool, other_comes: bool
) -> None:
    text = (
        f"OFTEN = True\nTWICE = True\nTWICE = False\nif {test}:\n    first()\nelse:\n    second()\n"
    )
    found = left(text)
    assert ("first()" in found, "second()" in found) == (comes, other_comes)
    assert found.count("\n") == text.count("\n")
    compile(found, "a.py", "exec")


def test_lines_stay_where_they_are_and_indents_as_they_are() -> None:
    text = (
        "def train(args):\r\n\tif args.mixup:\r\n\t\t@hook\r\n\t\tdef later():\r\n\t\t\tpass\r\n"
        "\t\tlater()\r\n\telif args.depth == 3:\r\n\t\tdeep()\r\n\telse:\r\n\t\tflat()\r\n"
        "\tif args.mixup: short()\r\n"
    )
    found = left("\ufeff" + text).split("\r\n")
    assert found == [
        *("def train(args):", "\tif args.mixup:", "\t\tpass", "", "", ""),
        *("\telif args.depth == 3:", "\t\tdeep()", "\telse:", "\t\tpass"),
        *("\tif args.mixup: short()", ""),
    ]


def test_of_an_elif_that_does_not_come_its_branches_are_left_out() -> None:
    text = "if args.depth:\n    a()\nelif args.mixup:\n    b()\nelif x:\n    c()\nelse:\n    d()\n"
    assert left(text) == (
        "if args.depth:\n    a()\nelif args.mixup:\n    pass\nelif x:\n    pass\nelse:\n    pass\n"
    )


@pytest.mark.parametrize(
    ("setting", "stays"),
    [
        ("args.mixup = choose()", True),
        ("config['mixup'] = True", True),
        ("args.mixup |= late", True),
        ("self.mixup = args.mixup", False),
        ("self.mixup = mixup", False),
        ("args.other = True", False),
    ],
)
def test_an_option_that_the_program_sets_again_leaves_nothing_out(
    setting: str, stays: bool
) -> None:
    assert ("mix(x)" in left(f"{setting}\nif args.mixup:\n    mix(x)\n")) is stays


def test_what_a_run_has_come_to_stays() -> None:
    text = "if args.mixup:\n    mix(x)\n    loss.backward()\n"
    assert left(text, 3) == text
    assert left(text) == "if args.mixup:\n    pass\n\n"


def test_a_file_that_is_not_python_stays_as_it_is() -> None:
    assert left("if args.mixup:\n  print 1\n") == "if args.mixup:\n  print 1\n"
