"""What is looked for in steps that are not timed."""

import json
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

from autotune.workload.conversation import RunWindow, Tell, Unsupported, Watched
from autotune.workload.found import Counted, Saved
from autotune.workload.live import Live
from autotune.workload.looks.lines import Sampling, _stack
from autotune.workload.looks.saving import _Blocks
from autotune.workload.looks.watches import Synchronising
from autotune.workload.setup import Setup
from autotune.workload.steps.clock import Untimed
from autotune.workload.system import idle
from autotune.workload.window import AS_IS, FLOPS, SAVED, SYNCS, TRACE, Window
from tests.workload.programs import PLAIN, run

# 32 samples through 8 x 16 and 16 x 2 weights: forward, and backward for the weights and, of the
# second, for what came before it; two operations each.
FLOPS_PER_STEP = 2 * 32 * (8 * 16 * 2 + 16 * 2 * 3)


def watched(mode: str, folder: Path, *, steps: int = 2, traced: int = 2) -> object:
    reports = run(
        PLAIN,
        RunWindow(seconds=0.0, steps=traced, mode=mode),
        RunWindow(seconds=0.0, steps=steps),
        folder=folder,
    )
    looked_at, after = reports[1:3]
    assert isinstance(looked_at, Watched) and looked_at.window.mode == mode
    assert isinstance(after, Window) and (after.mode, after.steps) == (AS_IS, steps)
    return looked_at.found


def test_floating_point_operations_of_all_passes_are_counted(tmp_path: Path) -> None:
    found = watched(FLOPS, tmp_path)
    assert found == Counted(flops=2 * FLOPS_PER_STEP, convolution_flops=0)


def test_what_lies_between_forward_and_backward_is_measured_once(tmp_path: Path) -> None:
    found = watched(SAVED, tmp_path)
    assert isinstance(found, Saved)
    parameters = 8 * 16 + 16 + 16 * 2 + 2
    assert found.gradient_bytes == 4 * parameters
    # Inputs, the first layer's output that is both relu's and the second layer's, log-probabilities
    # and targets; the weights are none of these.
    least = 4 * 32 * (8 + 16 + 2) + 8 * 32
    assert least <= found.activation_bytes <= 1.1 * least


@pytest.mark.parametrize("frozen", [False, True])
def test_weights_that_autocast_has_copied_are_none_of_a_batch(tmp_path: Path, frozen: bool) -> None:
    layers = "nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 512), nn.Linear(512, 512)"
    text = PLAIN.replace("nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)", layers)
    text = text.replace("optimizer =", f"model[3].requires_grad_({not frozen})\noptimizer =")
    run_in = "with torch.autocast('cpu', dtype=torch.bfloat16):\n"
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if "model(x)" in line)
    indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
    lines[at : at + 1] = [f"{indent}{run_in}{indent}    {lines[at].lstrip()}"]
    reports = run(
        "\n".join(lines) + "\n", RunWindow(seconds=0.0, steps=2, mode=SAVED), folder=tmp_path
    )
    assert isinstance(reports[1], Watched) and isinstance(reports[1].found, Saved)
    # In bf16 what goes into each layer and comes out of the last; of its loss, in fp32, two times
    # the last's output at the most. The weights of the last layer alone take 512 KiB.
    inside = 32 * (2 * (8 + 16 + 512) + (2 + 4 + 4) * 512 + 8)
    assert 0 < reports[1].found.activation_bytes <= inside


def test_what_each_block_keeps_and_takes_is_measured(tmp_path: Path) -> None:
    # Each block keeps what comes out of its first layer, 32 x 64, and is slower the wider it is;
    # what goes into it and comes out of it is kept by whoever has it next.
    blocks = "nn.Sequential(nn.Linear(8, {0}), nn.Tanh(), nn.Linear({0}, 8), nn.Tanh())"
    text = PLAIN.replace(
        "nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))",
        f"nn.Sequential(nn.Sequential({blocks.format(64)}, {blocks.format(2048)}), "
        "nn.Linear(8, 2))",
    )
    assert text != PLAIN
    reports = run(text, RunWindow(seconds=0.0, steps=2, mode=SAVED), folder=tmp_path)
    assert isinstance(reports[1], Watched) and isinstance(reports[1].found, Saved)
    narrow, wide = reports[1].found.blocks
    assert (narrow.name, wide.name) == ("0.0", "0.1")
    # tanh keeps what it gives, the second layer what it is given: the same.
    assert (narrow.freed_bytes, wide.freed_bytes) == (4 * 32 * 64, 4 * 32 * 2048)
    assert 0 < narrow.seconds < 1 and 0 < wide.seconds < 1


@pytest.mark.parametrize("capturing", [False, True])
def test_blocks_are_timed_without_waiting_where_a_graph_is_captured(
    capturing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    monkeypatch.setattr(idle, "is_capturing", lambda: capturing)
    blocks = _Blocks()
    blocks._device = torch.device("cuda")
    blocks._now()
    assert bool(waited) is not capturing


@pytest.mark.parametrize(("name", "seen"), [("synchronize", False), ("manual_seed", True)])
def test_no_line_is_named_for_waiting_for_the_device(name: str, seen: bool) -> None:
    code = f"def {name}(note):\n    note(sys._getframe())"
    called: dict[str, Any] = {"sys": sys}
    exec(compile(code, torch.cuda.__file__, "exec"), called)
    live = Live(setup=Setup())
    live.clock = Untimed()
    watch = Sampling(live)
    called[name](lambda frame: watch._note(_stack(frame), inside=False))
    assert bool(watch._seen) is seen


def test_a_trace_holds_the_operations_of_its_steps_but_the_first(tmp_path: Path) -> None:
    found = watched(TRACE, tmp_path, traced=3)
    assert isinstance(found, bytes)
    names = [each.get("name") for each in json.loads(zlib.decompress(found))["traceEvents"]]
    assert names.count("aten::addmm") == 2 * (3 - 1)
    assert sum(str(name).startswith("Optimizer.step#") for name in names) == 3 - 1
    assert any(str(name).startswith("enumerate(DataLoader)") for name in names)


def test_what_this_torch_does_not_offer_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("torch has a device here")
    reports = run(
        PLAIN, RunWindow(seconds=0.0, mode=SYNCS), RunWindow(seconds=0.0), folder=tmp_path
    )
    assert isinstance(reports[1], Unsupported)
    assert isinstance(reports[2], Window)


def test_lines_that_wait_for_the_device_are_noted_by_torch_s_warnings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modes = ["default"]
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: modes[-1])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    before = warnings.showwarning
    watch = Synchronising()
    watch.begin()
    assert modes[-1] == "warn"
    for _ in range(3):
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
    warnings.warn("something else", stacklevel=1)
    (found,) = watch.end()
    place, count = found
    assert (Path(place.path).name, count) == (Path(__file__).name, 3)
    assert modes[-1] == "default"
    assert warnings.showwarning is before


@pytest.mark.parametrize("mode", [TRACE, AS_IS])
def test_what_torch_warns_of_while_it_is_asked_ends_no_program(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, start = torch.get_float32_matmul_precision, torch.profiler.profile.start
    asked: list[str] = []

    def warning(*given: Any) -> Any:
        asked.append("warned")
        warnings.warn("that has a newer name", stacklevel=2)
        return start(*given) if given else read()

    monkeypatch.setattr(torch, "get_float32_matmul_precision", warning)
    monkeypatch.setattr(torch.profiler.profile, "start", warning)
    text = f"import warnings\nwarnings.simplefilter('error')\n{PLAIN}"
    reports = run(text, Tell(), RunWindow(seconds=0.0, steps=2, mode=mode), folder=tmp_path)
    assert asked
    assert isinstance(reports[-1], Watched if mode == TRACE else Window)
