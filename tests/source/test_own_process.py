"""The number of threads is left alone where the program computes with it."""

from unittest.mock import Mock

import pytest

from autotune.source.edits import Places, ProcessStatement
from autotune.source.program import parsed
from autotune.source.refusals import own_process
from autotune.source.refusals.own_process import counted_by_threads, counted_by_workers
from tests.source.programs import rewritten

THREADS = ProcessStatement(code="torch.set_num_threads(1)", threads=True)


@pytest.mark.parametrize(
    "line",
    [
        "lanes = 32 * torch.get_num_threads()",
        "from torch import get_num_threads as cores; lanes = 32 * cores()",
        "data = make(torch.get_num_threads())",
        "threads = torch.get_num_threads()\nlanes = 32 * threads",
    ],
)
def test_what_counts_by_threads_forbids_others(line: str) -> None:
    outcome = rewritten(f"import torch\n\n{line}\n", THREADS)
    assert outcome.statuses == ["refused"]
    assert outcome.outcomes[0].forbidden
    said = "the program asks for the number of its threads at train.py:3, and may go by that"
    assert outcome.reason == said


MORE = ProcessStatement(code="torch.set_num_threads(2)", threads=True)


@pytest.mark.parametrize("fork", ["os.fork()", "multiprocessing.Process(target=evaluate).start()"])
def test_a_program_that_forks_processes_keeps_its_one_thread(fork: str) -> None:
    text = f"import torch\n\ntorch.set_num_threads(1)\n{fork}\n"
    outcome = rewritten(text, MORE)
    assert outcome.outcomes[0].forbidden
    assert outcome.reason.startswith(
        "the program sets one thread and may fork processes at train.py:4"
    )
    for other in ("psutil.Process()", "class Pool: pass\n\nPool()"):
        harmless = text.replace(fork, other).replace("import torch", "import torch, psutil")
        assert rewritten(harmless, MORE).statuses == ["done"]
    by_name = text.replace(fork, f"multiprocessing.get_context(method='spawn'); {fork}")
    assert rewritten(by_name, MORE).statuses == ["done"]
    assert rewritten(text.replace("(1)", "(2)"), THREADS).statuses == ["done"]
    assert rewritten(text.replace(fork, "evaluate()"), MORE).statuses == ["done"]
    spawned = text.replace("\n\n", '\n\nmultiprocessing.set_start_method("spawn")\n', 1)
    assert rewritten(spawned, MORE).statuses == ["done"]


@pytest.mark.parametrize(
    "line",
    [
        "print(torch.get_num_threads())",
        'text = f"{torch.get_num_threads()} threads"',
        "log.info('%d threads', torch.get_num_threads())",
        "own = torch.get_num_threads()\ntorch.set_num_threads(own)",
        'info = {"threads": torch.get_num_threads()}\nwith open(p) as f:\n    json.dump(info, f)',
        "torch.set_num_threads(max(1, torch.get_num_threads() // 2))",
        "def facts(): return {'n': torch.get_num_threads()}\n\njson.dump(facts(), file)",
    ],
)
def test_what_tells_or_sets_it_does_not(line: str) -> None:
    assert rewritten(f"import torch\n\n{line}\n", THREADS).statuses == ["done"]


def test_other_switches_are_not_asked() -> None:
    text = "import torch\n\nlanes = 32 * torch.get_num_threads()\n"
    benchmark = ProcessStatement(code="torch.backends.cudnn.benchmark = True")
    assert rewritten(text, benchmark).statuses == ["done"]


@pytest.mark.parametrize(
    ("train", "refused"),
    [
        ("from common import THREADS\nlr = base * THREADS", True),
        ("from common import THREADS as lanes\nlr = base * lanes", True),
        ("from common import *\nlr = base * THREADS", True),
        ("import common\nlr = base * common.THREADS", True),
        ("from project import common\nlr = base * common.THREADS", True),
        ("from common import THREADS\nprint(THREADS)", False),
        ("import common\nlog.info('%d threads', common.THREADS)", False),
        ("THREADS = 4\nlr = base * THREADS", False),
        ("lr = base * args.THREADS", False),
    ],
)
def test_what_another_file_has_of_it_may_only_be_told_there_too(train: str, refused: bool) -> None:
    common = 'import torch\nTHREADS = torch.get_num_threads()\nprint(f"{THREADS} threads")\n'
    texts = {"/p/common.py": common, "/p/train.py": f"{train}\n"}
    found = counted_by_threads(parsed(texts, Places(), "/p/train.py"))
    assert found == ("common.py:2" if refused else "")


def test_a_loader_is_asked_for_its_workers_in_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "/p/data.py": "print(loader.num_workers)\n",
        "/p/test.py": "test_loader = DataLoader(x, num_workers=loader.num_workers)\n",
        "/p/train.py": "print(loader.num_workers)\n",
    }
    told = Mock(side_effect=own_process.only_told)
    monkeypatch.setattr(own_process, "only_told", told)
    assert counted_by_workers(parsed(texts, Places(), "/p/train.py")) == ""
    assert told.call_count == 1
    texts["/p/train.py"] = "lr = base * loader.num_workers\n"
    assert counted_by_workers(parsed(texts, Places(), "/p/train.py")) == "train.py:1"
