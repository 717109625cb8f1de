"""Live runs in processes of their own: timed, paused, and ended whatever the program does."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from autotune.errors import MeasurementError
from autotune.knobs import blamed
from autotune.measurement.processes.endings import NOT_WATCHED, cause_of, last_line
from autotune.measurement.processes.forks import Zygote
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.workload.window import DRAIN
from tests.measurement.conftest import Start
from tests.workload.programs import PLAIN

WITH_WORKERS = PLAIN.replace(
    "batch_size=32", "batch_size=32, num_workers=2, persistent_workers=True"
)


def group_of(pid: int) -> list[psutil.Process]:
    """The living members of the process group that `pid` leads."""
    members = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == pid and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return members


def eventually(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    """Whether `condition` comes true in time."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True


def test_a_run_reports_windows_and_what_it_is_made_of(start: Start) -> None:
    run = start(PLAIN)
    window = run.window(0.05, steps=5)
    assert window.steps >= 5 and window.samples > 0 and len(window.losses) == window.steps + 1
    seen = run.seen()
    assert seen.loader is not None and seen.loader.num_workers == 0
    assert run.startup_seconds > 0


def test_what_a_run_is_made_of_takes_no_step_s_time(start: Start) -> None:
    slow = "class Slow(type(dataset)):\n    def __len__(self):\n        import time\n"
    slow += "        time.sleep(0.3)\n        return super().__len__()\n\n"
    slow += "dataset = Slow(*dataset.tensors)\nloader = DataLoader"
    run = start(PLAIN.replace("loader = DataLoader", slow))
    run.await_first_step()
    run.limit(0.1)
    assert run.seen().loader is not None


def test_a_run_has_the_settings_that_it_was_started_with(start: Start) -> None:
    own = start(PLAIN)
    own.window(0.0, steps=5)
    seen = start(PLAIN, config={"threads": 1}).seen()
    assert (own.seen().threads, seen.threads) == (os.cpu_count(), 1) or seen.threads == 1


def test_a_paused_run_stands_still_with_its_workers(start: Start) -> None:
    run = start(WITH_WORKERS.replace("range(50)", "range(5000)"))
    run.window(0.0, steps=5)
    run.pause()
    assert eventually(
        lambda: all(each.status() == psutil.STATUS_STOPPED for each in group_of(run.pid))
    )
    assert len(group_of(run.pid)) == 3
    assert run.window(0.0, steps=3).steps >= 3  # asking for a window resumes it


def test_a_killed_run_leaves_no_worker_behind(start: Start) -> None:
    run = start(WITH_WORKERS.replace("range(50)", "range(5000)"))
    run.window(0.0, steps=5)
    assert len(group_of(run.pid)) == 3
    run.kill()
    assert eventually(lambda: not group_of(run.pid))


def test_what_a_killed_worker_has_left_in_shared_memory_is_taken_away(start: Start) -> None:
    run = start(WITH_WORKERS.replace("range(50)", "range(5000)"))
    run.window(0.0, steps=5)
    shared = [Path(f"/dev/shm/torch_{each.pid}_1_0") for each in group_of(run.pid)]
    other = Path(f"/dev/shm/torch_{os.getpid()}_1_0")
    for file in (*shared, other):
        file.touch()
    try:
        run.kill()
        assert eventually(lambda: not any(file.exists() for file in shared))
        assert other.exists()
    finally:
        for file in (*shared, other):
            file.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("ending", "kind", "words"),
    [
        ("raise ValueError('the data is odd')", "crashed", "the data is odd"),
        ("raise ValueError('the shape is odd\\n\\nsee the manual')", "crashed", "shape is odd"),
        ("raise ValueError('in the file:\\n  no such key')", "crashed", "in the file: no such key"),
        ("assert loss.item() < 0", "crashed", "AssertionError: assert loss.item() < 0"),
        ("raise MemoryError('no more')", "out_of_memory", "no more"),
        ("import sys; sys.exit(3)", "crashed", "it left with exit code 3"),
        ("import sys; sys.exit()", "ended", "came to its end after 1 training step"),
        ("import os; os._exit(5)", "crashed", "exit code 5"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed", "memory"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "SIGSEGV"),
        ("import time; time.sleep(60)", "hung", "within 2 s"),
    ],
)
def test_however_a_program_ends_there_is_a_reason(
    start: Start, ending: str, kind: str, words: str
) -> None:
    body = PLAIN.replace(
        "        optimizer.step()\n", f"        optimizer.step()\n        {ending}\n"
    )
    run = start(body, limit_seconds=60)
    run.await_first_step()
    run.step_limit_seconds = 1
    with pytest.raises(RunEnded) as ended:
        run.window(0.0, steps=1)
    assert ended.value.failure.kind == kind
    assert words in ended.value.failure.reason
    assert eventually(lambda: not group_of(run.pid))


def test_a_program_that_never_trains_says_so(start: Start) -> None:
    with pytest.raises(RunEnded) as ended:
        start("print('hello')").window(0.1)
    assert ended.value.failure.kind == "ended"
    assert "without a training step" in ended.value.failure.reason
    assert "hello" in ended.value.failure.output


def test_a_program_that_waits_for_a_process_of_its_own_says_what_is_not_watched(
    start: Start,
) -> None:
    text = "import subprocess\nsubprocess.Popen(['sleep', '60']).wait()\n"
    run = start(text)
    assert eventually(psutil.Process(run.pid).children)
    run.limit(1)
    with pytest.raises(RunEnded) as ended:
        run.await_first_step()
    assert ended.value.failure.kind == "hung"
    assert NOT_WATCHED in ended.value.failure.reason


@pytest.mark.parametrize(
    ("stuck", "said"),
    [
        ("time.sleep(60)", "it uses no processor any more"),
        ("subprocess.Popen(['sleep', '60']).wait()", "neither it nor the processes that it has"),
        ("sum(iter(int, 1))", ""),  # for ever
    ],
)
def test_a_program_whose_next_step_does_not_come_says_whether_it_computes(
    start: Start, stuck: str, said: str
) -> None:
    run = start(f"import subprocess, time\n{PLAIN.replace('range(50)', 'range(1)')}\n{stuck}\n")
    run.await_first_step()
    run.limit(1.0)
    with pytest.raises(RunEnded) as ended:
        run.window(0.0, steps=10_000)
    assert ended.value.failure.kind == "hung"
    assert ended.value.failure.reason.partition("; ")[2][: len(said) or None] == said


def test_a_program_that_passes_over_its_errors_is_quoted(start: Start) -> None:
    text = """
        while True:
            try:
                raise TypeError("Got unsupported ScalarType BFloat16")
            except Exception as error:
                print("batch left out:", error)
    """
    run = start(textwrap.dedent(text))
    run.limit(1)
    with pytest.raises(RunEnded) as ended:
        run.await_first_step()
    reason = ended.value.failure.reason
    assert reason.endswith("it last said: batch left out: Got unsupported ScalarType BFloat16")
    assert blamed({"threads": 1, "precision": "bf16"}, reason) == {"precision": "bf16"}


@pytest.mark.parametrize(
    ("output", "last"),
    [
        ("", ""),
        ("one\ntwo\n\n", "two"),
        ("one\ntwo\nthr", "two"),
        ("one", "one"),
        ("\n 10 %\r 20 %\r", "20 %"),
        ("x" * 200, "x" * 160),
        (
            "epoch 1\n/a/loader.py:7: UserWarning: no device is found\n  super().__init__()\n",
            "epoch 1",
        ),
    ],
)
def test_the_last_line_is_quoted_whole(output: str, last: str) -> None:
    assert last_line(output) == last


def test_the_traceback_of_a_program_is_its_own(start: Start) -> None:
    with pytest.raises(RunEnded) as ended:
        start("def main():\n    raise KeyError('x')\nmain()\n").await_first_step()
    assert ended.value.failure.output.count('File "') == 2
    assert "child.py" not in ended.value.failure.output


def test_the_traceback_of_a_model_that_fails_has_nothing_between_its_calls(start: Start) -> None:
    with pytest.raises(RunEnded) as ended:
        start(PLAIN.replace("model(x)", "model(x[:, :1])")).await_first_step()
    output = ended.value.failure.output
    assert "model(x[:, :1])" in output and "cannot be multiplied" in output
    assert "autotune/workload" not in output


def test_a_bare_except_round_the_loop_does_not_keep_a_program_alive(start: Start) -> None:
    text = PLAIN.replace(
        "for epoch in range(50):", "while True:\n  try:\n   for epoch in range(50):"
    ).replace("    for x, y in loader:", "    for x, y in loader:")
    text = text.split("while True:")[0] + textwrap.dedent("""
        while True:
            try:
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
            except:
                pass
        """)
    run = start(text)
    run.window(0.0, steps=3)
    run.kill()
    assert eventually(lambda: not group_of(run.pid))


def test_a_mode_that_is_not_possible_leaves_the_run_alive(start: Start) -> None:
    text = PLAIN.replace(
        "for x, y in loader:", "for x, y in zip(inputs.split(32), targets.split(32)):"
    )
    run = start(text.replace("range(50)", "range(5000)"))
    with pytest.raises(NotPossible, match="no DataLoader"):
        run.window(0.1, mode=DRAIN)
    assert run.window(0.0, steps=3).steps >= 3


def test_runs_do_not_share_state(start: Start) -> None:
    first = start(PLAIN).window(0.0, steps=5).losses
    second = start(PLAIN).window(0.0, steps=5).losses
    count = min(len(first), len(second))
    assert first[:count] == second[:count]


def test_nothing_survives_a_controller_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WITH_WORKERS.replace("range(50)", "range(50000)"))
    controller = f"""
import sys, time
from autotune.measurement.processes.forks import Zygote
from autotune.measurement.processes.jobs import Job
from autotune.workload.program.script import Program
zygote = Zygote()
program = Program(path={str(tmp_path / "train.py")!r}, directory={str(tmp_path)!r})
run = zygote.start(Job(program=program), limit_seconds=60)
run.window(0.0, steps=3)
run.pause()
print(run.pid, zygote._process.pid, flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", controller], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    run, zygote = map(int, process.stdout.readline().split())
    assert len(group_of(run)) == 3
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert eventually(lambda: not group_of(run) and not psutil.pid_exists(zygote))


def test_a_run_has_the_number_of_one_that_was_killed_long_ago(zygote: Zygote) -> None:
    zygote.warm_up()
    last = zygote.call(os.getpid)
    zygote._exits.update(dict.fromkeys(range(last + 1, last + 5000), -signal.SIGKILL))
    started = time.monotonic()
    assert zygote.call(time.sleep, 0.3) is None and time.monotonic() - started >= 0.3


def test_a_function_is_called_in_a_fresh_process(zygote: Zygote) -> None:
    assert zygote.call(os.getppid) == zygote._process.pid
    with pytest.raises(RunEnded, match="division"):
        zygote.call(divmod, 1, 0)


def test_that_the_warm_process_was_killed_is_said_when_the_next_run_begins() -> None:
    with closing(Zygote()) as zygote:
        zygote._process.kill()
        zygote._process.wait()
        zygote._warm = True
        with pytest.raises(MeasurementError, match="has died"):
            zygote.call(os.getpid)


def test_an_abort_after_an_error_of_the_device_is_the_devices() -> None:
    said = "terminate called after throwing an instance of 'c10::AcceleratorError'\n"
    said += "  what():  CUDA error: an illegal memory access was encountered\n"
    assert cause_of(-signal.SIGABRT, said).kind == "device_error"
    assert cause_of(-signal.SIGABRT, "free(): invalid pointer").kind == "crashed"


def test_a_killed_run_is_gone_when_the_next_one_begins(start: Start) -> None:
    first = start(PLAIN)
    assert not first.await_end()
    first.window(0.0, steps=5)
    first.kill()
    start(PLAIN)
    assert not group_of(first.pid)
