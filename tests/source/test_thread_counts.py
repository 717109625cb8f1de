"""The number of threads is left alone where the program computes with it."""

import pytest

from autotune.source.edits import ProcessStatement
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
    assert outcome.reason == (
        "the program asks for the number of its threads at train.py:3, and may go by it"
    )


MORE = ProcessStatement(code="torch.set_num_threads(2)", threads=True)


@pytest.mark.parametrize("fork", ["os.fork()", "multiprocessing.Process(target=evaluate).start()"])
def test_a_program_that_forks_processes_keeps_its_one_thread(fork: str) -> None:
    text = f"import torch\n\ntorch.set_num_threads(1)\n{fork}\n"
    outcome = rewritten(text, MORE)
    assert outcome.outcomes[0].forbidden
    assert outcome.reason.startswith(
        "the program sets one thread, and may fork processes at train.py:4"
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
