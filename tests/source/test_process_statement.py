"""`ProcessStatement`: a switch thrown once, after the imports of the main script."""

import textwrap

import pytest

from autotune.source.edits import Place, Places, ProcessStatement
from autotune.source.program import parsed
from autotune.source.refusals.shrinking import asked_whether_zero
from autotune.source.rewrite import rewrite
from autotune.source.rewrites.process import process_statement
from tests.source.programs import PATH, check, rewritten

THREADS = ProcessStatement(code="torch.set_num_threads(1)")
ALLOCATOR = ProcessStatement(
    code='os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")',
    imports=("import os",),
)
BENCHMARK = ProcessStatement(code="torch.backends.cudnn.benchmark = True")

CASES = {
    "after the last import": (
        """
        \"\"\"Trains.\"\"\"
        from __future__ import annotations

        import os
        os.environ["A"] = "1"
        import torch  # slow

        x = 1
        """,
        """
        \"\"\"Trains.\"\"\"
        from __future__ import annotations

        import os
        os.environ["A"] = "1"
        import torch  # slow

        torch.set_num_threads(1)

        x = 1
        """,
    ),
    "imported for types only": (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import torch\n",
        (
            "from typing import TYPE_CHECKING\nimport torch\n\ntorch.set_num_threads(1)\n\n"
            "if TYPE_CHECKING:\n    import torch\n"
        ),
    ),
    "code right behind": (
        "import torch\nx = 1\n",
        "import torch\n\ntorch.set_num_threads(1)\n\nx = 1\n",
    ),
    "another name for torch": (
        "import torch as th\n",
        "import torch as th\n\nth.set_num_threads(1)\n",
    ),
    "no torch at the top": (
        "import os\n\n\ndef main():\n    import torch\n",
        "import os\nimport torch\n\ntorch.set_num_threads(1)\n\n\ndef main():\n    import torch\n",
    ),
    "only a part of torch": (
        "from torch import nn\n",
        "from torch import nn\nimport torch\n\ntorch.set_num_threads(1)\n",
    ),
    "imports in a try": (
        """
        import torch
        try:
            import apex
        except ImportError:
            apex = None

        import late

        def f():
            pass
        """,
        """
        import torch
        try:
            import apex
        except ImportError:
            apex = None

        import late

        torch.set_num_threads(1)

        def f():
            pass
        """,
    ),
    "no imports, no docstring": (
        "#!/usr/bin/env python\n# hello\nrun()\n",
        "#!/usr/bin/env python\n# hello\nimport torch\n\ntorch.set_num_threads(1)\n\nrun()\n",
    ),
    "only a docstring": (
        '"""Trains."""\nrun()\n',
        '"""Trains."""\nimport torch\n\ntorch.set_num_threads(1)\n\nrun()\n',
    ),
    "a last line without an end": (
        "import torch",
        "import torch\n\ntorch.set_num_threads(1)",
    ),
    "the switch is thrown otherwise": (
        "import torch\n\ntorch.set_num_threads(  8 )  # all\n",
        "import torch\n\ntorch.set_num_threads(1)  # all\n",
    ),
    "the switch is thrown later on": (
        """
        import torch
        from torch import set_num_threads


        def main():
            set_num_threads(args.threads)
        """,
        """
        import torch
        from torch import set_num_threads

        torch.set_num_threads(1)


        def main():
            set_num_threads(1)
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_the_switch_stands_after_the_imports(before: str, after: str) -> None:
    check(before, after, THREADS)


def test_several_switches_stand_together_in_order() -> None:
    check(
        "import torch\n\n\nrun()\n",
        "import torch\n\n"
        "torch.set_num_threads(1)\ntorch.backends.cudnn.benchmark = True\n\n\nrun()\n",
        THREADS,
        BENCHMARK,
    )


def test_an_assigned_switch_is_turned_under_its_short_name() -> None:
    check(
        "import torch\nfrom torch.backends import cudnn\n\ncudnn.benchmark = False  # safe\n",
        "import torch\nfrom torch.backends import cudnn\n\ncudnn.benchmark = True  # safe\n",
        BENCHMARK,
    )


def test_the_switch_is_turned_in_a_module_beside_the_main_script_too() -> None:
    sources = {PATH: "import torch\n", "/project/engine.py": "torch.set_num_threads(8)\n"}
    done = rewrite(sources, [("threads", THREADS)], Places())
    assert done.sources == {
        PATH: "import torch\n\ntorch.set_num_threads(1)\n",
        "/project/engine.py": "torch.set_num_threads(1)\n",
    }


def test_the_main_script_may_be_named() -> None:
    sources = {"/project/engine.py": "import torch\n", PATH: "import torch\n"}
    done = rewrite(sources, [("threads", THREADS)], Places(), main=PATH)
    assert done.sources["/project/engine.py"] == "import torch\n"
    assert done.sources[PATH] != "import torch\n"


def test_a_main_script_that_is_not_python_is_refused() -> None:
    outcome = rewritten("%matplotlib inline\n", THREADS)
    assert outcome.statuses == ["refused"]
    assert "cannot be read" in outcome.reason
    assert outcome.text == "%matplotlib inline\n"


def test_a_file_that_calls_something_else_torch_is_refused() -> None:
    outcome = rewritten("torch = 1\n", THREADS)
    assert outcome.statuses == ["refused"]
    assert "for something else" in outcome.reason


def test_a_statement_brings_the_imports_that_it_needs() -> None:
    check(
        "import torch\n\nx = 1\n",
        "import torch\nimport os\n\n"
        'os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")\n\nx = 1\n',
        ALLOCATOR,
    )


@pytest.mark.parametrize(
    "beside",
    ["torch.backends.cudnn.deterministic = True", "torch.use_deterministic_algorithms(True)"],
)
def test_a_switch_that_goes_with_a_seed_stays(beside: str) -> None:
    off = "torch.backends.cudnn.benchmark = False"
    seeded = f"if seed:\n    {beside}\n    {off}\n"
    plain = f"import torch\n{seeded}else:\n    {off}\n"
    done = rewritten(plain, BENCHMARK, places=Places()).text
    assert seeded in done
    assert done.count(BENCHMARK.code) == 2


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("torch.backends.cudnn.deterministic = exact", "not exact"),
        ("torch.use_deterministic_algorithms(args.exact)", "not args.exact"),
        ("torch.backends.cudnn.deterministic = False", "True"),
        ("torch.backends.cudnn.deterministic = is_exact()", "False"),
    ],
)
def test_where_results_may_be_repeatable_it_goes_by_that(asked: str, told: str) -> None:
    head = "import torch\ntorch.backends.cudnn.benchmark = True\n"
    text = f"{head}def seed():\n    {asked}\n    torch.backends.cudnn.benchmark = "
    done = rewritten(f"{text}False\n", BENCHMARK, places=Places())
    assert done.text == f"{text}{told}\n"
    assert rewritten(done.text, BENCHMARK, places=Places()).statuses == ["already"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("allow_tf32 = args.fast", "allow_tf32 = True"),
        ('fp32_precision = "ieee"', 'fp32_precision = "tf32"'),
    ],
)
def test_a_switch_is_thrown_under_its_other_names_too(before: str, after: str) -> None:
    head = 'import torch\n\ntorch.set_float32_matmul_precision("high")\n'
    text = f"{head}torch.backends.cuda.matmul.{before}\n"
    done = rewritten(text, PRECISION, places=Places())
    assert done.text == f"{head}torch.backends.cuda.matmul.{after}\n"


def test_threads_have_nothing_to_do_with_repeatable_results() -> None:
    text = "import torch\ntorch.use_deterministic_algorithms(True); torch.set_num_threads(4)\n"
    done = rewritten(text, THREADS)
    assert done.text == text.replace("(4)", "(1)")
    assert done.statuses == ["done"]


TRAINING = """
import torch

def seed(worker):
    torch.set_num_threads(3)  # of workers

class Trainer:
    def __init__(self):
        torch.set_num_threads(4)  # built before

    def fit(self):
        torch.set_num_threads(5)  # on the way
        for x, y in DataLoader(data, worker_init_fn=partial(seed, 1)):
            loss = self.net(x).mean()
            loss.backward()
        export()

def prepare():
    threads()

def threads():
    torch.set_num_threads(6)  # called before

def export():
    torch.set_num_threads(7)  # afterwards

if __name__ == "__main__":
    torch.set_num_threads(8)  # at the top
    prepare()
    Trainer().fit()
    export()
"""


def test_what_is_said_elsewhere_than_on_the_way_to_the_loop_stays() -> None:
    done = rewritten(TRAINING, THREADS)
    assert done.statuses == ["done"]
    kept = {
        line.partition("# ")[2]
        for line in done.text.splitlines()
        if "# " in line and "(1)" not in line
    }
    assert kept == {"of workers", "afterwards"}
    assert done.text.count("torch.set_num_threads(1)") == 5
    assert rewritten(done.text, THREADS).statuses == ["already"]


def test_the_switch_of_a_notebook_stands_before_what_it_is_for() -> None:
    check(
        """
        import torch
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        import time
        for x, y in loader:
            net(x).mean().backward()
        """,
        """
        import torch

        torch.set_num_threads(1)

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        import time
        for x, y in loader:
            net(x).mean().backward()
        """,
        THREADS,
    )


def test_imports_below_the_call_that_trains_are_none_of_those_that_it_stands_after() -> None:
    check(
        """
        import torch
        from other import other

        def fit():
            for x, y in loader:
                net(x).mean().backward()

        class Net(nn.Module): ...
        fit()
        from sklearn.metrics import accuracy_score
        """,
        """
        import torch
        from other import other

        torch.set_num_threads(1)

        def fit():
            for x, y in loader:
                net(x).mean().backward()

        class Net(nn.Module): ...
        fit()
        from sklearn.metrics import accuracy_score
        """,
        THREADS,
    )
    other = Place(path="/p/utils.py", line=3)
    text = (
        "import torch\nfrom utils import fit\nfit()\nfrom sklearn.metrics import accuracy_score\n"
    )
    texts = {
        "/p/main.py": text,
        "/p/utils.py": "def fit():\n    for x, y in loader:\n        net(x).mean().backward()\n",
    }
    program = parsed(texts, Places(backward=other, forward=other), "/p/main.py")
    done = process_statement(program, THREADS).scripts["/p/main.py"].text
    assert done.index("set_num_threads") < done.index("fit()\n")


PRECISION = ProcessStatement(code='torch.set_float32_matmul_precision("high")')
EXACT = 'torch.set_float32_matmul_precision("highest")'


def test_a_switch_for_what_follows_the_training_stays() -> None:
    main = """
        import torch

        def train():
            for x, y in loader:
                model(x).mean().backward()

        def main():
            {0}
            train()
            {0}
            evaluate()

        main()
        {0}
        """
    done = rewritten(textwrap.dedent(main.format(EXACT)), PRECISION)
    assert done.statuses == ["done"]
    said = [line.split('"')[1] for line in done.text.splitlines() if "precision" in line]
    assert said == ["high", "high", "highest", "highest"]
    assert rewritten(done.text, PRECISION).statuses == ["already"]


def test_a_switch_that_is_thrown_between_epochs_is_thrown_the_new_way() -> None:
    text = f"""
import torch
for epoch in range(3):
    for x, y in loader:
        model(x).mean().backward()
    {EXACT}
{EXACT}
"""
    done = rewritten(text, PRECISION)
    assert (done.text.count('"high"'), done.text.count('"highest"')) == (2, 1)


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("log = (x + 1e-40).log()", True),
        ("TINY = 1.4e-45", True),
        ("x = -1e-39", True),
        ("log = (x + 1e-38 * 2).log()", True),  # not the product: what is written
        ("log = (x + 1e-37).log()", False),
        ("x = 0.0", False),
        ("x = '1e-40'", False),
        ("import numpy as np; x = np.maximum(x, 1e-300)", False),  # in float64
        ("log = (x + 1e-100).log()", False),  # in float32 that is none in any case
    ],
)
def test_what_has_denormal_numbers_written_down_keeps_them(code: str, refused: bool) -> None:
    flush = ProcessStatement(code="torch.set_flush_denormal(True)", flushes=True)
    outcome = rewritten(f"import torch\n{code}\n", flush)
    assert outcome.statuses == (["refused"] if refused else ["done"])
    assert ("the number at train.py:2 is denormal in float32" in outcome.reason) == refused
    assert rewritten(f"import torch\n{code}\n", THREADS).statuses == ["done"]


HEAT = """
import torch
class Ledger:
    def __init__(self, rings):
        self.heat = torch.zeros(rings, 8)

    def settle(self, rings):
        {shrink}
        self.heat[rings] += 1.0

    def warm(self):
        return self.heat.amax(1)

{asks}
"""


@pytest.mark.parametrize(
    "shrink",
    [
        "self.heat.mul_(0.9)",
        "self.heat *= 0.9",
        "self.heat.data.div_(2.0)",
        "self.heat = 0.9 * self.heat + rings.mean()",
        "self.heat = torch.zeros_like(self.heat)",
        "loss = self.heat * 0.9",
    ],
)
@pytest.mark.parametrize(
    "asks",
    [
        "known = ledger.heat > 0",
        "known = (ledger.warm() != 0).nonzero()",
        "warm = ledger.warm()\nknown = torch.nonzero(warm)",
        "def known(rows):\n    return rows[:, 0] == 0.0\nknown(ledger.heat)",
        "score = torch.log(ledger.heat)",
        "score = ledger.heat.log()",
        "import numpy as onp\nscore = onp.log(ledger.heat)",
        "share = rings / ledger.heat.sum()",
        "score = torch.log1p(ledger.heat)",
        "score = torch.log(ledger.heat + 1e-6)",
        "share = rings / ledger.heat.clamp(min=1e-6)",
        "known = ledger.heat > 0.5",
        "known = ledger.heat.shape[0] == 0",
        "wandb.log({'heat': ledger.heat})",
        "row = {'heat': ledger.heat}\nwandb.log(row)",
        "known = (ledger.heat > 0.5).any()",
        "share = rings / (ledger.heat > 0.5).sum()",
        "share = 1 / table[ledger.heat]",
    ],
)
def test_what_asks_whether_shrinking_numbers_are_zero_keeps_them(shrink: str, asks: str) -> None:
    shrinks = "zeros_like" not in shrink and "loss" not in shrink
    refused = shrinks and not any(
        each in asks for each in ("log1p", "1e-6", "0.5", "shape", "wandb", "table")
    )
    flush = ProcessStatement(code="torch.set_flush_denormal(True)", flushes=True)
    outcome = rewritten(HEAT.format(shrink=shrink, asks=asks), flush)
    assert outcome.statuses == (["refused"] if refused else ["done"])
    assert ("asks" in outcome.reason) == refused


@pytest.mark.parametrize(
    ("asks", "refused"),
    [
        ("zero = torch.zeros(())\nif (heat != zero).any(): cool()", True),
        ("cold = heat == floor", True),
        ("warm = torch.count_nonzero(heat > 1e-40)", True),
        ("warm = heat > -1e-40", True),
        ("warm = 0 < heat < 1", True),
        ("warm = (heat > 0.5).any()", False),
        ("warm = heat > floor", False),
        ("warm = heat == 0.5 or heat != -1", False),
        ("same = heat.shape == other.shape", False),
        ("score = torch.rsqrt(heat)", True),
        ("score = ops.reciprocal(heat)", True),
        ("score = special.log2(heat)", True),
        ("score = self.xp.log(heat)", True),
        ("import cupy as cp\nscore = cp.log(heat)", True),
        ("import tensorflow as tf\nscore = tf.math.log(heat)", True),
        ("self.log('heat', heat)", False),
        ("wandb.run.log({'heat': heat})", False),
    ],
)
def test_what_is_compared_with_zero_under_another_name_is(asks: str, refused: bool) -> None:
    text = f"import torch\nheat = torch.ones(8)\nfor x in loader:\n    heat.mul_(0.9)\n{asks}\n"
    assert (asked_whether_zero(parsed({PATH: text}, Places(), PATH)) != "") == refused


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ("heat = heat * 0.9 + x", True),
        ("heat = x * 2\n    heat = heat * 0.9", False),  # made anew each time
        ("heat, n = 0.0, 0\n    for y in x: heat += y\n    heat /= 9", False),  # a mean
        ("heat = max(0.5, heat * 0.9)", False),
        ("heat = max(0.0, heat * 0.9)", True),
        ("heat = (heat * 0.9).clamp(min=0)", True),
        ("heat = torch.clamp(heat * 0.9, 0.1)", False),
        ("if x > 9: heat = 0.0\n    heat *= 0.9", True),
    ],
)
def test_a_variable_shrinks_from_step_to_step_where_it_is_kept(body: str, refused: bool) -> None:
    text = f"import torch\nheat = torch.zeros(3)\nfor x in loader:\n    {body}\nprint(heat > 0)\n"
    flush = ProcessStatement(code="torch.set_flush_denormal(True)", flushes=True)
    assert rewritten(text, flush).statuses == (["refused"] if refused else ["done"])


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        ("def turned(self):\n        self.heat *= -1", False),  # whose turn it is
        ("def widened(self):\n        self.heat.mul_(2)", False),
        ("def __init__(self, heat):\n        self.heat = heat\n        self.heat /= 8", False),
        ("def asked(self, heat):\n        heat = heat / 3\n        return heat > 0", False),
        (
            (
                "def asked(self, x):\n        heat = x + 1\n        for i in x:\n"
                "            heat[i] = heat[i] / x.sum()\n        return heat > 0"
            ),
            False,
        ),
        ("def cooled(self):\n        self.heat /= 8", True),
        ("def cooled(self, x):\n        self.heat = x.amax()\n        self.heat /= 8", False),
        ("def cooled(self, heat):\n        heat *= 0.9\n        return heat > 0", True),
        ("def cooled(self):\n        global heat\n        heat = heat * 0.9", True),
    ],
)
def test_what_is_no_smaller_in_the_next_step_may_be_asked_for(function: str, refused: bool) -> None:
    text = (
        f"import torch\nclass Kept:\n    {function}\nheat = kept.heat\nfor x in loader:\n"
        "    loss = model(x)\n    loss.backward()\nprint(heat > 0)\n"
    )
    flush = ProcessStatement(code="torch.set_flush_denormal(True)", flushes=True)
    assert rewritten(text, flush).statuses == (["refused"] if refused else ["done"])
