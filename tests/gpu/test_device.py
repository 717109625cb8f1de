"""What only a device can show; where there is none, some of it on the CPU in its place."""

import math
import os
import signal
import time
from pathlib import Path

import pytest
import torch

from autotune.knobs import by_name, unobserved
from autotune.knobs.knob import Config, Value
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.measurement.untimed.largest import largest_batch
from autotune.workload.steps.clock import CudaClock
from tests.gpu.programs import PINNED, TRAINING, failing
from tests.measurement.conftest import Start
from tests.measurement.test_largest import text

gpu = pytest.mark.gpu
TOO_MUCH = "torch.empty(1 << 50, device=device)"
# An index that is out of range is found by the device itself, after the call has returned.
STICKY = "model.last.weight[torch.full((1,), 10**6, device=device)].sum().item()"


def ended(run: ProcessRun) -> RunEnded:
    with pytest.raises(RunEnded) as caught:
        run.window(0.0, steps=20)
    return caught.value


def tuned(start: Start, own: ProcessRun, config: Config) -> ProcessRun:
    """The program that `own` runs with `config`, whose loader's settings are for its loader."""
    loader = own.seen().training_loader()
    return start(TRAINING, config=config, training_loader=loader, limit_seconds=300.0)


class TestFailures:
    def test_too_little_memory_is_told_and_the_next_run_has_all_of_it(self, start: Start) -> None:
        assert ended(start(failing(TOO_MUCH))).failure.kind == "out_of_memory"
        assert start(TRAINING).window(0.0, steps=5).steps >= 5

    @gpu
    def test_an_error_that_stays_with_the_device_goes_with_its_process(self, start: Start) -> None:
        failure = ended(start(failing(STICKY))).failure
        assert failure.kind == "device_error"
        assert "device-side assert" in failure.reason
        assert start(TRAINING).window(0.0, steps=5).steps >= 5

    def test_a_run_that_is_killed_leaves_the_device_to_the_next(self, start: Start) -> None:
        run = start(TRAINING)
        run.window(0.0, steps=5)
        os.killpg(run.pid, signal.SIGKILL)
        assert ended(run).failure.kind == "killed"
        assert start(TRAINING).window(0.0, steps=5).steps >= 5


class TestTurns:
    def test_runs_stop_and_go_on_beside_one_another(self, start: Start) -> None:
        """A stopped process keeps its CUDA context; what it had queued is done, and no more."""
        first, second = start(TRAINING), start(TRAINING)
        for run in (first, second):
            run.window(0.0, steps=5)
            run.pause()
        for _ in range(3):
            for run in (first, second):
                window = run.window(0.0, steps=5)
                run.pause()
                assert window.steps >= 5 and all(map(math.isfinite, window.losses))

    @gpu
    def test_a_stopped_run_leaves_the_device_idle(self, start: Start) -> None:
        run = start(TRAINING)
        run.window(0.0, steps=50)
        run.pause()
        time.sleep(1.5)  # NVML looks back over up to a second
        assert Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        assert torch.cuda.utilization() < 5


class TestSettings:
    CONFIGS = (
        ("precision", "bf16"),
        ("precision", "fp16"),
        pytest.param("precision", "tf32", marks=gpu),
        ("optimizer", "fused"),
        ("optimizer", "foreach"),
        pytest.param("pin_memory", True, marks=gpu),
        pytest.param("cudnn_benchmark", True, marks=gpu),
        pytest.param("expandable_segments", True, marks=gpu),
        pytest.param("compile", "reduce-overhead", marks=[gpu, pytest.mark.slow]),
        pytest.param("compile", "max-autotune", marks=[gpu, pytest.mark.slow]),
    )

    @pytest.mark.parametrize(("name", "value"), CONFIGS)
    def test_what_is_given_is_had_and_trains_the_same(
        self, start: Start, name: str, value: Value
    ) -> None:
        own = start(TRAINING)
        before = own.window(0.0, steps=10)
        other = tuned(start, own, {name: value})
        after = other.window(0.0, steps=10)
        assert unobserved({name: value}, other.seen()) == []
        assert after.losses[:10] == pytest.approx(before.losses[:10], rel=0.05)

    @gpu
    def test_the_next_batch_is_copied_beside_the_training(self, start: Start) -> None:
        workers = {"num_workers": 2, "pin_memory": True}
        ahead = {**workers, "prefetch_to_device": True}
        plain = start(TRAINING)
        plain.window(0.0, steps=1)
        own, other = (tuned(start, plain, config) for config in (workers, ahead))
        before, after = own.window(0.0, steps=50), other.window(0.0, steps=50)
        assert unobserved(ahead, other.seen()) == []
        assert not own.seen().prefetch_to_device and other.seen().prefetch_to_device
        assert after.losses == pytest.approx(before.losses, rel=1e-4)

    @pytest.mark.skipif(
        not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch 2.9 brought it"
    )
    def test_number_formats_set_by_torchs_newer_switches_are_seen(self, start: Start) -> None:
        switches = (
            'torch.backends.cuda.matmul.fp32_precision = "tf32"\n'
            'torch.backends.cudnn.conv.fp32_precision = "ieee"\n'
        )
        run = start(TRAINING.replace("torch.manual_seed(0)\n", f"torch.manual_seed(0)\n{switches}"))
        run.window(0.0, steps=3)
        seen = run.seen()
        assert (seen.matmul_precision, seen.cudnn_tf32) == ("high", False)

    @gpu
    def test_pinned_copies_that_do_not_wait_are_seen(self, start: Start) -> None:
        run = start(PINNED)
        run.window(0.0, steps=10)
        seen = run.seen()
        assert by_name("pin_memory").read(seen) is True
        assert by_name("non_blocking").read(seen) is True
        assert seen.copies_to_device == 2

    @gpu
    def test_pageable_copies_that_wait_are_seen(self, start: Start) -> None:
        run = start(TRAINING)
        run.window(0.0, steps=10)
        seen = run.seen()
        assert by_name("pin_memory").read(seen) is False
        assert by_name("non_blocking").read(seen) is False


class TestFigures:
    def test_the_peak_holds_what_the_training_holds(self, start: Start) -> None:
        run = start(TRAINING)
        window, seen = run.window(0.0, steps=10), run.seen()
        (model,) = seen.models
        assert seen.optimizer is not None and window.peak_bytes is not None
        # Weights, their gradients, and the optimizer's two averages of them.
        assert window.peak_bytes > 2 * model.parameter_bytes + seen.optimizer.state_bytes

    @gpu
    def test_the_largest_batch_takes_what_an_epoch_takes_at_most(self, start: Start) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        program = text().replace("nn.Linear(64, 1))", f"nn.Linear(64, 1)).to('{device}')")
        program = program.replace("model(texts)", f"model(texts.to('{device}'))")
        run, whole = start(program), start(program)
        last = run.window(0.0, steps=5)
        largest = largest_batch(run, run.seen(), seconds=20.0, last=last, beside_bytes=0)
        assert largest is not None and largest.is_whole and largest.fits
        # Nobody has tried how near the two come on a device.
        peak = whole.window(0.0, steps=101).peak_bytes
        assert largest.peak_bytes(0) == pytest.approx(peak, rel=0.1)

    def test_phases_fill_the_step(self, start: Start) -> None:
        run = start(TRAINING)
        run.window(0.0, steps=10)
        window = run.window(0.2)
        assert {"data", "forward", "backward", "optimizer"} <= set(window.phases)
        assert 0 < sum(window.phases.values()) <= 1.05 * window.seconds

    @gpu
    def test_events_agree_with_the_wall(self) -> None:
        clock, matrix = CudaClock(), torch.randn(4096, 4096, device="cuda")
        clock.follow(matrix.device)
        matrix @ matrix
        clock.drain()
        since = time.perf_counter()
        began, ended = clock.span("forward")
        began(clock.now())
        for _ in range(20):
            matrix = torch.tanh(matrix @ matrix)
        ended(clock.now())
        seconds = clock.drain()["forward"]
        assert seconds == pytest.approx(time.perf_counter() - since, rel=0.1)

    @gpu
    def test_the_host_runs_ahead_of_the_device(self) -> None:
        """No synchronise while a span is open: the host is through long before the device is."""
        clock, matrix = CudaClock(), torch.randn(8192, 8192, device="cuda")
        clock.follow(matrix.device)
        matrix @ matrix
        clock.drain()
        since = time.perf_counter()
        began, ended = clock.span("forward")
        began(clock.now())
        for _ in range(20):
            matrix @ matrix
        ended(clock.now())
        queued = time.perf_counter() - since
        assert queued < 0.5 * clock.drain()["forward"]
