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
        ("turn >= args.warmup", True, False),
        ("args.warmup > turn", False, True),
        ("turn < args.depth", True, True),
        ("args.warmup == turn", True, True),
        ("-1 < turn", True, False),
        ("below >= args.warmup", True, True),
        ("args.mixup()", True, True),
        ("1 < args.depth < 2", True, True),
    ],
)
def test_a_branch_is_left_out_where_the_options_tell(
    test: str, comes: bool, other_comes: bool
) -> None:
    text = (
        "OFTEN = True\nTWICE = True\nTWICE = False\nfor turn in range(9):\n    pass\n"
        "for below in range(-9, 9):\n    pass\n"
        f"if {test}:\n    first()\nelse:\n    second()\n"
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
def test_an_option_that_the_program_sets_as_it_trains_leaves_nothing_out(
    setting: str, stays: bool
) -> None:
    asks = "if args.mixup:\n    mix(x)\n"
    for later in (
        f"for x in batches:\n    {setting}\n{asks}",
        f"args = parser.parse_args()\nwhile True:\n    train()\n{setting}\n{asks}",
        f"def train(args):\n    {setting}\n{asks}",
    ):
        assert ("mix(x)" in left(later)) is stays
    main = f"def main():\n    args = options()\n    {setting}\n{asks}"
    for sooner in (
        f"{setting}\n{asks}",
        f"def options():\n    args = parser.parse_args()\n    if cpu:\n        {setting}\n{asks}",
        f"def options():\n    return parser.parse_args()\n{main}",
    ):
        assert "mix(x)" not in left(sooner)


@pytest.mark.parametrize(
    ("signature", "calls", "stays"),
    [
        ("x, late=False", "train(x)", False),
        ("x, late=False", "train(x)\ntrain(x, late=False)", False),
        ("x, late=False", "train(x, args.mixup)", False),
        ("x, *, late=False", "train(x)", False),
        ("x, late", "train(x, late=0)", False),
        ("x, late=False", "train(x, True)", True),
        ("x, late=False", "train(x)\ntrain(x, True)", True),
        ("x, late=False", "train(x)\ntrain(x, 0)", True),  # both are off, but not the same
        ("x, late=False", "train(x, args.depth)", True),
        ("x, late=False", "train(x, late)", True),
        ("x, late=False", "train(*all_of_it)", True),
        ("x, late=False", "train(x, **others)", True),
        ("x, late=False", "train(x)\nhook(train)", True),
        ("x, late=False", "pass", True),
        ("x, late=False", "train(x)\ndef train(x, late=False):\n    pass", True),
    ],
)
def test_what_all_calls_of_a_function_give_it_is_known_in_it(
    signature: str, calls: str, stays: bool
) -> None:
    body = "    if late:\n        mix(x)\n"
    assert ("mix(x)" in left(f"def train({signature}):\n{body}{calls}\n")) is stays
    itself = signature.replace("x", "self, x", 1)
    method = f"class Trainer:\n    def train({itself}):\n        if late:\n            mix(x)\n"
    of_it = calls.replace("train(x", "trainer.train(x").replace("train(*", "trainer.train(*")
    of_it = of_it.replace("def trainer.train", "def train").replace("hook(train", "hook(it.train")
    assert ("mix(x)" in left(f"{method}{of_it}\n")) is stays


def test_one_that_the_function_sets_itself_is_not() -> None:
    text = (
        "def train(x, late=0):\n    late = late or x > 3\n    if late:\n        mix(x)\ntrain(x)\n"
    )
    assert left(text) == text


def test_a_function_in_it_may_have_one_of_that_name() -> None:
    inner = "    def step(late):\n        if late:\n            mix(x)\n    step(x > 3)\n"
    text = f"def train(x, late=False):\n{inner}train(x)\n"
    assert left(text) == text


def test_a_condition_on_what_a_loop_counts_by_is_put_as_what_it_is() -> None:
    text = (
        "for epoch in range(9):\n    if (args.mixup or\n        epoch >= args.warmup):\n"
        "        mix(x)\n    elif epoch < 0:\n        a()\n    if epoch < 3:\n        b()\n"
    )
    assert left(text) == (
        "for epoch in range(9):\n    if (True\n):\n"
        "        mix(x)\n    elif epoch < 0:\n        pass\n    if epoch < 3:\n        b()\n"
    )


def test_what_a_run_has_come_to_stays() -> None:
    text = "if args.mixup:\n    mix(x)\n    loss.backward()\n"
    assert left(text, 3) == text
    assert left(text) == "if args.mixup:\n    pass\n\n"


def test_a_file_that_is_not_python_stays_as_it_is() -> None:
    assert left("if args.mixup:\n  print 1\n") == "if args.mixup:\n  print 1\n"
