"""A run that is looked into: what was found, and why something was not."""

import json
import zlib
from typing import Any

import pytest

from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.measurement.untimed.watching import BEFORE, STARTS, STEPS, TRIES, WARM_STEPS, look
from autotune.source.edits import Place
from autotune.workload.conversation import Watched
from autotune.workload.found import Counted, Saved
from autotune.workload.window import FLOPS, SAVED, SYNCS, TRACE, Window
from tests import builders
from tests.measurement.conftest import Start
from tests.workload.programs import PLAIN

KERNEL = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 10, "dur": 5, "args": {}}
FOUND: dict[str, Any] = {
    FLOPS: Counted(flops=400, convolution_flops=100),
    SAVED: Saved(activation_bytes=12, gradient_bytes=4),
    SYNCS: ((Place(path="/a/train.py", line=4), 8),),
    TRACE: zlib.compress(json.dumps({"traceEvents": [KERNEL]}).encode()),
}
USUAL: dict[str, Any] = {"compiled": False, "backwards_per_step": 1.0}


class Run:
    """A run that answers as `found` says, or ends as that raises; it validates in the first looks
    of each kind.
    """

    def __init__(self, found: dict[str, Any], validations: int, traced_steps: int) -> None:
        self.found = found
        self.steps = {**STEPS, TRACE: traced_steps}
        self.validations = validations
        self.validates_every = 0
        self.trained: list[int] = []
        self.killed = False
        self.asked: list[str] = []

    def window(self, seconds: float, *, steps: int) -> Window:
        self.trained.append(steps)
        between = self.validates_every and len(self.trained) % self.validates_every == 0
        return builders.window(180.0, validations=int(between))

    def watch(self, mode: str, *, steps: int) -> Watched:
        assert steps == self.steps[mode] + BEFORE.get(mode, 0)
        self.asked.append(mode)
        answer = self.found[mode]
        if isinstance(answer, Exception):
            raise answer
        if (looks := self.asked.count(mode)) <= self.validations:
            answer = f"with a validation, {looks}"
        validations = int(looks <= self.validations)
        return Watched(window=builders.window(180.0, validations=validations), found=answer)

    def kill(self) -> None:
        self.killed = True


def looked(
    *runs: dict[str, Any],
    validations: int = 0,
    traced_steps: int = STEPS[TRACE],
    **given: Any,
) -> Any:
    started = [Run(found, validations, traced_steps) for found in runs]
    waiting = iter(started)
    looks = look(lambda: next(waiting), **USUAL | given)  # type: ignore[arg-type,return-value]
    assert all(run.killed for run in started if run.asked)
    return looks


def test_a_program_is_looked_at_once_however_little_time_there_is() -> None:
    ended = RunEnded(Failure(kind="ended", reason="it was over", output=""))
    found = looked({**FOUND, TRACE: ended}, FOUND, deadline=0.0)
    assert found.flops_per_step == 200
    assert "over before" in found.missing[TRACE]


def test_everything_is_found_in_one_run_the_trace_last() -> None:
    found = looked(FOUND)
    assert list(STEPS)[-1] == TRACE
    assert (found.flops_per_step, found.convolution_share) == (200, 0.25)
    assert (found.activation_bytes, found.gradient_bytes) == (12, 4)
    assert [(each.line, each.per_step) for each in found.syncs] == [(4, 2.0)]
    assert found.trace.kernels == 1
    assert found.missing == {}


def test_steps_between_which_it_validated_are_looked_at_again() -> None:
    found = looked({**FOUND, TRACE: NotPossible("no CUPTI")}, validations=TRIES - 1)
    assert found == looked({**FOUND, TRACE: NotPossible("no CUPTI")})
    always = looked(*[FOUND] * STARTS, validations=TRIES)
    assert set(always.missing) == set(STEPS)
    assert set(always.missing.values()) == {"a validation came in between"}
    assert always.trace is None and always.flops_per_step is None


def test_a_trace_is_taken_again_in_another_process_behind_a_validation() -> None:
    runs = [Run(FOUND, 1, STEPS[TRACE]), Run(FOUND, 0, STEPS[TRACE])]
    runs[1].validates_every = 4
    waiting = iter(runs)
    found = look(lambda: next(waiting), **USUAL)  # type: ignore[arg-type,return-value]
    assert found.trace is not None and found.missing == {}
    assert [run.asked.count(TRACE) for run in runs] == [1, 1]
    assert runs[1].asked == [TRACE]
    assert runs[1].trained == [WARM_STEPS, 1, 1, 1]


def test_a_trace_that_lacks_kernels_is_taken_again_in_another_process() -> None:
    launch = {**KERNEL, "cat": "cuda_runtime", "name": "cudaLaunchKernel"}
    launches = [{**launch, "ts": at, "args": {"correlation": at}} for at in range(9)]
    lacking = {**FOUND, TRACE: zlib.compress(json.dumps({"traceEvents": launches}).encode())}
    assert looked(lacking, FOUND).trace is not None
    always = looked(*[lacking] * STARTS)
    assert always.trace is None
    assert always.missing == {TRACE: "the profiler lost 9 of 9 kernels"}


@pytest.mark.parametrize(
    ("passes", "steps"), [(0.9, 8), (1.0, 8), (1.05, 8), (2.0, 4), (3.0, 3), (8.1, 1), (32.0, 1)]
)
def test_of_steps_with_many_passes_few_are_traced(passes: float, steps: int) -> None:
    found = looked(FOUND, traced_steps=steps, backwards_per_step=passes)
    assert found.trace.steps == steps


def test_what_is_not_offered_is_missing_with_its_reason() -> None:
    found = looked({**FOUND, TRACE: NotPossible("no CUPTI")})
    assert found.trace is None
    assert found.missing == {TRACE: "no CUPTI"}


def test_a_program_that_ends_is_started_again_for_what_is_left() -> None:
    ended = RunEnded(Failure(kind="ended", reason="the program came to its end"))
    found = looked({**FOUND, SYNCS: ended}, FOUND)
    assert found.missing == {}
    short = looked(*[{**FOUND, FLOPS: ended}] * STARTS)
    assert set(short.missing) == set(STEPS)


def test_a_program_that_fails_under_one_look_is_spared_it() -> None:
    crashed = RunEnded(Failure(kind="crashed", reason="RuntimeError: hooks"))
    found = looked({**FOUND, SAVED: crashed}, FOUND)
    assert found.missing == {SAVED: "RuntimeError: hooks"}
    assert found.trace is not None


def test_operations_of_a_compiled_model_are_not_counted() -> None:
    found = looked(FOUND, compiled=True)
    assert set(found.missing) == {FLOPS, SAVED}


def test_a_trace_without_kernels_or_out_of_order_is_missing() -> None:
    empty = looked({**FOUND, TRACE: zlib.compress(b'{"traceEvents": []}')})
    assert "no kernel" in empty.missing[TRACE]
    broken = looked({**FOUND, TRACE: zlib.compress(b"[")})
    assert "cannot be read" in broken.missing[TRACE]


@pytest.mark.parametrize(
    ("counted", "why"),
    [
        (
            Counted(flops=400, convolution_flops=100, unknown=("aten::_grouped_mm", "a::b")),
            "operations of aten::_grouped_mm, a::b are not counted",
        ),
        (
            Counted(flops=400, convolution_flops=100, recomputed=True),
            "the backward pass computes activations again, or gradients of gradients",
        ),
    ],
)
def test_what_is_not_all_of_a_model_s_operations_is_missing(counted: Counted, why: str) -> None:
    found = looked({**FOUND, FLOPS: counted})
    assert (found.flops_per_step, found.convolution_share) == (None, None)
    assert found.missing == {FLOPS: why}


@pytest.mark.slow
def test_a_real_program_s_validation_is_not_counted_as_a_step(start: Start) -> None:
    validates = """
        if step % 8 == 6:
            model.eval()
            with torch.no_grad():
                for a, b in DataLoader(dataset, batch_size=100): model(a)
            model.train()
"""
    even = PLAIN.replace("batch_size=32", "batch_size=25")
    text = even.replace("for x, y in loader:", "for step, (x, y) in enumerate(loader):") + validates
    looks, plain = look(lambda: start(text), **USUAL), look(lambda: start(even), **USUAL)
    assert looks.flops_per_step == plain.flops_per_step


@pytest.mark.slow
def test_a_real_program_is_looked_into_in_a_process_of_its_own(start: Start) -> None:
    looks = look(lambda: start(PLAIN), **USUAL)
    assert looks.flops_per_step
    assert looks.activation_bytes and looks.gradient_bytes and not looks.blocks
    assert looks.trace is None  # no device, no kernels
    assert "no kernel" in looks.missing[TRACE]
