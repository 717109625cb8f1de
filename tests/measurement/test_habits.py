"""What programs do beside training, and none of it outlives them: signals, threads, children of
their own, endings of every kind.
"""

import psutil
import pytest

from autotune.measurement.processes.process import RunEnded
from tests.measurement.conftest import Start
from tests.measurement.test_process import eventually
from tests.workload.programs import PLAIN

ENDLESS = PLAIN.replace("range(50)", "range(50000)")
SETUP, LOOP = ENDLESS.split("for epoch")
LOOP = f"for epoch{LOOP}"

# Torch finds a worker gone before its own handler has told it of the signal: a race otherwise.
SIGNAL_UNHANDLED = (
    "import torch.utils.data._utils.signal_handling as handling\n"
    "handling._set_SIGCHLD_handler = lambda: None\n"
)

HABITS = {
    "another directory": "import os; os.makedirs('sub dir'); os.chdir('sub dir')",
    "input at its end": "import sys; assert sys.stdin.read() == ''",
    "an exit handler": "import atexit, time; atexit.register(time.sleep, 1000)",
    "handlers of signals": """
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
    signal.signal(number, lambda *_: None)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
""",
    "a timer": """
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
""",
    "threads": """
import threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(1000,)).start()
""",
    "processes that share its work": """
import multiprocessing
pool = multiprocessing.Pool(2)
assert pool.map(abs, [-1, 2]) == [1, 2]
""",
    "another program": "import subprocess; subprocess.Popen(['sleep', '1000'])",
    "another program in a session of its own": """
import subprocess
subprocess.Popen(['sleep', '1000'], start_new_session=True)
""",
    "a daemon": "import subprocess; subprocess.run('setsid sleep 1000 >/dev/null &', shell=True)",
}


def begun_by(run: int) -> list[psutil.Process]:
    """Every process below the warm one that `run` was forked from, but itself."""
    warm = psutil.Process(run).parent()
    assert warm is not None
    return [each for each in warm.children(recursive=True) if each.is_running()]


@pytest.mark.parametrize("habit", HABITS)
def test_a_program_is_measured_whatever_it_does_beside_training(start: Start, habit: str) -> None:
    run = start(SETUP + HABITS[habit] + "\n" + LOOP)
    assert run.window(0.0, steps=3).steps >= 3
    started = begun_by(run.pid)
    assert run.pid in [each.pid for each in started]
    run.kill()
    assert eventually(lambda: not any(each.is_running() for each in started))


@pytest.mark.parametrize("handler", ["except Exception as error:", "except:"])
def test_a_program_that_catches_everything_can_be_ended(start: Start, handler: str) -> None:
    inner = "".join(f"    {line}" for line in LOOP.splitlines(keepends=True))
    run = start(f"{SETUP}\ntry:\n{inner}\n{handler}\n    import time; time.sleep(1000)\n")
    run.window(0.0, steps=3)
    process = psutil.Process(run.pid)
    run.kill()
    assert eventually(lambda: not process.is_running())


@pytest.mark.parametrize(
    ("ending", "kind", "words"),
    [
        ("name = input('name? ')", "crashed", "reads its standard input, which is empty in a run"),
        ("import os; os._exit(0)", "ended", "exit code 0"),
        ("raise SystemExit", "ended", "ended without a training step"),
        ("import os, signal; os.killpg(0, signal.SIGTERM)", "crashed", "SIGTERM"),
        ("import torch; torch.zeros(1 << 50)", "out_of_memory", "allocate"),
    ],
)
def test_an_ending_before_the_first_step_has_its_reason(
    start: Start, ending: str, kind: str, words: str
) -> None:
    run = start(f"{SETUP}\n{ending}\n{LOOP}")
    with pytest.raises(RunEnded) as ended:
        run.window(0.0)
    assert ended.value.failure.kind == kind
    assert words in ended.value.failure.reason
    with pytest.raises(RunEnded) as again:  # asked once more, it says the same
        run.window(0.0)
    assert again.value.failure == ended.value.failure


@pytest.mark.parametrize("unhandled", ["", SIGNAL_UNHANDLED], ids=["by signal", "found gone"])
def test_a_worker_that_the_system_killed_is_no_fault_of_the_program(
    start: Start, unhandled: str
) -> None:
    text = ENDLESS.replace("batch_size=32", "batch_size=32, num_workers=1").replace(
        "dataset = TensorDataset(inputs, targets)",
        f"{unhandled}import os, signal\n"
        "class Killed(TensorDataset):\n"
        "    def __getitem__(self, index):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "dataset = Killed(inputs, targets)",
    )
    with pytest.raises(RunEnded) as ended:
        start(text).window(0.0)
    assert ended.value.failure.kind == "killed", ended.value.failure


def test_the_system_is_to_end_a_run_before_anything_else(start: Start) -> None:
    run = start("import torch\nprint(open('/proc/self/oom_score_adj').read())")
    with pytest.raises(RunEnded) as ended:
        run.window(0.0)
    assert ended.value.failure.output.strip() == "500"
