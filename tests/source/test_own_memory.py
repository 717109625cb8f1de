"""`keep_freed_memory` is refused where the program goes by how much memory it has."""

import pytest

from autotune.source.edits import Places, ProcessStatement
from autotune.source.program import parsed
from autotune.source.refusals.own_process import memory_asked
from tests.source.programs import PATH, rewritten

HEAD = "import torch\nimport psutil\n"
HELPER = "def used(): return psutil.Process().memory_info().rss\n"
IN_MEGABYTES = "def used(): rss = psutil.Process().memory_info().rss; return rss / 1e6\n"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("while psutil.Process().memory_info().rss > limit:\n    evict()\n", True),
        ("rss = psutil.Process().memory_info().rss\nif rss > limit:\n    evict()\n", True),
        ("with open('/proc/self/statm') as f:\n    pages = f.read()\n", True),
        ("path = f'/proc/{pid}/statm'\n", True),
        ("if resource.getrusage(0).ru_maxrss > 1e6:\n    evict()\n", True),
        ("used = resource.getrusage(0)\nevict(used.ru_utime)\n", False),
        ("evict(resource.getrusage(0).ru_utime)\nevict(resource.getrusage(0)[0])\n", False),
        ("evict(resource.getrusage(0)[2])\n", True),
        ("u = resource.getrusage(0); evict(u[2])\n", True),
        ("u = resource.getrusage(0); evict(u[0], u.ru_stime)\n", False),
        ("u = resource.getrusage(0); evict(u.ru_maxrss)\n", True),
        ("u = resource.getrusage(0); print(u.ru_maxrss, u[2])\n", False),
        ("u = resource.getrusage(0); evict(getattr(u, 'ru_maxrss'))\n", True),
        ("u = resource.getrusage(0); evict(u)\n", True),
        ("u = resource.getrusage(0); print(u)\n", False),
        ("u = resource.getrusage(0); evict(u[:3])\n", True),
        ("_, _, peak, *_ = resource.getrusage(0); evict(peak)\n", True),
        ("self.u = resource.getrusage(0); evict(self.u.ru_utime)\n", False),
        ("self.u = resource.getrusage(0); evict(self.u[2])\n", True),
        ("evict(getattr(resource.getrusage(0), 'ru_maxrss'))\n", True),
        ("print(resource.getrusage(0).ru_maxrss / 1024)\n", False),
        ("print(psutil.Process().memory_info().rss)\n", False),
        ("rss = psutil.Process().memory_info().rss\nprint(f'{rss}')\n", False),
        ("print('no memory')\n", False),
        (f"{HELPER}bar.set_postfix(ram=used())\n", False),
        (f"{HELPER}ram = f'{{used():.2f}}'\n", False),
        (f"{IN_MEGABYTES}print(f'{{used()}}')\n", False),
        (f"{IN_MEGABYTES}if used() > limit:\n    evict()\n", True),
        (f"{HELPER}if used() > limit:\n    evict()\n", True),
        (f"{HELPER}watch(used)\n", True),
        ("writer.add_scalar('ram', psutil.virtual_memory().percent, step)\n", False),
        ("size = table.memory_usage().sum()\nif size > limit:\n    table.shrink()\n", False),
        ("evict(memory_profiler.memory_usage(-1)[0] > limit)\n", True),
    ],
)
def test_a_program_that_asks_for_its_memory_keeps_none(text: str, refused: bool) -> None:
    keep = ProcessStatement(code="torch.keep()", keeps_memory=True)
    outcome = rewritten(HEAD + text, keep)
    assert outcome.statuses == (["refused"] if refused else ["done"])
    assert (
        f"the program may ask at {PATH.rpartition('/')[2]}:3 how much" in outcome.reason
    ) == refused
    other = ProcessStatement(code="torch.keep()")
    assert rewritten(HEAD + text, other).statuses == ["done"]


@pytest.mark.parametrize(
    ("use", "place"),
    [
        ("print(f'{usage.megabytes():.0f} MB')", ""),
        ("wandb.log({'memory': usage.megabytes()})", ""),
        ("if usage.megabytes() > 900: evict()", "usage.py:4"),
    ],
)
def test_what_a_function_of_another_file_gives_may_only_be_told(use: str, place: str) -> None:
    usage = (
        "import resource\n\ndef megabytes():\n"
        "    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n    return peak / 1024\n"
    )
    texts = {"/p/usage.py": usage, "/p/train.py": f"import usage\n{use}\n"}
    assert memory_asked(parsed(texts, Places(), "/p/train.py")) == place
