"""A program run under interception is the same program, watched and set up."""

import json
import os
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.weak import WeakIdKeyDictionary

from autotune.knobs import by_name
from autotune.workload.conversation import Ended, Ready, RunWindow, Tell, Unsupported
from autotune.workload.randomness.others import nudge
from autotune.workload.seen import Seen
from autotune.workload.setup import Precision, Setup
from autotune.workload.steps.clock import HostClock
from autotune.workload.window import (
    AS_IS,
    DRAIN,
    ONE_BLAS_THREAD,
    ONE_THREAD,
    REPLAY_DEVICE,
    Window,
)
from tests.workload.programs import HEAD, PLAIN, losses, observe, run, seen_of, steps, window_of


def losses_without_interception(text: str) -> list[float]:
    """What the same program computes when nobody watches; it appends to `kept`."""
    torch.manual_seed(0)
    kept: list[float] = []
    exec(
        compile(
            text.replace("loss.backward()", "loss.backward(); kept.append(loss.item())"),
            "t",
            "exec",
        ),
        {"kept": kept},
    )
    return kept


def test_watching_a_program_does_not_change_its_losses(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    expected = losses_without_interception(PLAIN)[:20]
    torch.set_rng_state(state)
    assert losses(PLAIN, tmp_path, count=20) == pytest.approx(expected, rel=1e-6)


def test_nudged_weights_change_the_losses_in_their_last_digits_only(tmp_path: Path) -> None:
    plain = losses(PLAIN, tmp_path, count=5)
    nudged = losses(PLAIN, tmp_path, count=5, setup=Setup(nudge=1e-6))
    assert nudged != plain
    assert nudged == pytest.approx(plain, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_weights_of_any_format_are_nudged_in_their_last_digits(dtype: torch.dtype) -> None:
    module = nn.Linear(30, 30, dtype=dtype)
    before = module.weight.detach().double().clone()
    nudge(module, 1e-6, WeakIdKeyDictionary())
    moved = ((module.weight.detach().double() - before) / before)[before != 0].abs()
    last = torch.finfo(dtype).eps
    assert (moved > 0).double().mean() > 0.5
    assert moved.mean() < 20 * last


def test_a_window_counts_steps_samples_and_phases(tmp_path: Path) -> None:
    reports = run(PLAIN, steps(14), folder=tmp_path)
    window = window_of(reports)
    assert isinstance(reports[0], Ready)
    assert window.steps == 14
    assert window.samples == 2 * 200  # two epochs of 200 samples in 7 batches each
    assert set(window.phases) == {"data", "forward", "backward", "optimizer"}
    assert 0 < sum(window.phases.values()) <= window.seconds
    assert window.seconds == pytest.approx(sum(window.step_seconds))
    assert len(window.losses) == 15  # the first step's too
    assert len(window.rates) == 15 and set(window.rates) == {1e-2}


def test_a_rate_may_be_a_tensor(tmp_path: Path) -> None:
    text = PLAIN.replace("lr=1e-2)", "lr=torch.tensor(1e-2))")
    rates = window_of(run(text, steps(3), folder=tmp_path)).rates
    assert rates and all(each == pytest.approx(1e-2) for each in rates)


def test_a_call_with_nothing_in_it_takes_no_samples_away(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn
        model = nn.Linear(8, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(100):
            loss, held_out = (model(torch.randn(rows, 8)).mean() for rows in (30, 0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    window = window_of(run(textwrap.dedent(text), steps(10), folder=tmp_path))
    assert window.samples == 300


def test_rates_of_all_optimizers_count(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "for epoch", "other = torch.optim.SGD([nn.Parameter(inputs[:1])], lr=0.5)\nfor epoch"
    ).replace(
        "        optimizer.step()\n",
        '        optimizer.step()\n        other.param_groups[0]["lr"] /= 2\n',
    )
    rates = window_of(run(text, steps(3), folder=tmp_path)).rates
    assert [each - 1e-2 for each in rates] == pytest.approx([0.5, 0.25, 0.125, 0.0625])


def test_one_that_is_left_for_another_of_the_same_weights_counts_no_more(tmp_path: Path) -> None:
    built = "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)"
    anew = "        optimizer.step()\n        left.append(optimizer)\n        optimizer = build()\n"
    text = PLAIN.replace(built, "left, build = [], lambda: " + built.partition(" = ")[2])
    text = text.replace("for epoch", "optimizer = build()\nfor epoch", 1)
    text = text.replace("        optimizer.step()\n", anew)
    rates = window_of(run(text, steps(6), folder=tmp_path)).rates
    assert len(rates) > 3 and set(rates) == {1e-2}


def test_a_model_may_give_its_parameters_as_a_list(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent("""
        class Fast(nn.Module):
            def __init__(self):
                super().__init__()
                self.vars = nn.ParameterList([torch.randn(4, 2).requires_grad_()])

            def forward(self, x):
                return x @ self.vars[0]

            def parameters(self):
                return self.vars

        net = Fast()
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
        for step in range(100):
            loss = net(torch.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """)
    seen = observe(text, tmp_path)
    assert [each.parameters for each in seen.models] == [8]


@pytest.mark.parametrize(
    ("made", "differ"), [("net.weight.T.contiguous().T", True), ("net.weight.clone()", False)]
)
def test_gradients_that_lie_otherwise_than_their_weights_are_seen(
    tmp_path: Path, made: str, differ: bool
) -> None:
    text = HEAD + textwrap.dedent(f"""
        net = nn.Linear(4, 3)
        net.weight.data = {made}.data
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        for step in range(100):
            optimizer.zero_grad()
            net(torch.randn(8, 4)).square().mean().backward()
            for each in net.parameters():
                each.grad = each.grad.contiguous()
            optimizer.step()
        """)
    seen = observe(text, tmp_path)
    assert seen.optimizer is not None and seen.optimizer.strides_differ is differ
    fused = replace(seen.optimizer, fused=True)
    assert bool(by_name("optimizer").doubted(replace(seen, optimizer=fused))) is differ


@pytest.mark.parametrize(
    ("optimizer", "of", "idle"),
    [
        ("Adam", "other", True),
        ("SGD", "other, 0.1, 0.9", True),
        ("Adam", "net", False),
        ("SGD", "net, 0.1, 0.9", False),
        ("SGD", "other", False),  # it keeps nothing, so that cannot be told
        ("Adam", "both", False),
    ],
)
def test_an_optimizer_of_another_model_than_is_trained_is_idle(
    tmp_path: Path, optimizer: str, of: str, idle: bool
) -> None:
    model, *settings = of.split(", ")
    given = ", ".join((f"{model}.parameters()", *settings))
    text = HEAD + textwrap.dedent(f"""
        net, other = nn.Linear(4, 3), nn.Linear(4, 3)
        both = nn.ModuleList([net, other])
        optimizer = torch.optim.{optimizer}({given})
        for step in range(100):
            net(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            net.zero_grad()
            optimizer.zero_grad()
        """)
    seen = observe(text, tmp_path)
    assert seen.optimizer is not None and seen.optimizer.idle is idle


@pytest.mark.parametrize("kind", ["cfloat", "float"])
def test_complex_weights_are_seen_before_they_have_gradients(tmp_path: Path, kind: str) -> None:
    text = HEAD + textwrap.dedent(f"""
        net = nn.Linear(4, 3)
        bank = nn.Parameter(torch.zeros(3, dtype=torch.{kind}), requires_grad=False)
        optimizer = torch.optim.AdamW([*net.parameters(), bank], lr=1e-2)
        for step in range(100):
            optimizer.zero_grad()
            net(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        """)
    seen = observe(text, tmp_path)
    assert seen.optimizer is not None and seen.optimizer.complex_weights is (kind == "cfloat")


@pytest.mark.parametrize("sparse", [True, False])
def test_tables_with_sparse_gradients_are_seen_before_their_first(
    tmp_path: Path, sparse: bool
) -> None:
    text = HEAD + textwrap.dedent(f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.later = nn.Linear(4, 3), nn.Embedding(9, 3, sparse={sparse})

            def forward(self, x, step):
                late = self.later(torch.arange(8)) if step > 900 else 0.0
                return self.layer(x) + late

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
        for step in range(1000):
            optimizer.zero_grad()
            net(torch.randn(8, 4), step).square().mean().backward()
            optimizer.step()
        """)
    seen = observe(text, tmp_path)
    assert seen.optimizer is not None and seen.optimizer.sparse_weights is sparse


@pytest.mark.parametrize(("from_step", "without"), [(900, 2), (0, 0)])
def test_weights_that_the_optimizer_keeps_nothing_of_are_counted(
    tmp_path: Path, from_step: int, without: int
) -> None:
    text = HEAD + textwrap.dedent(f"""
        net, later, frozen = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(False)
        weights = [*net.parameters(), *later.parameters(), *frozen.parameters()]
        optimizer = torch.optim.SGD(weights, lr=1e-2, momentum=0.9)
        for step in range(100):
            optimizer.zero_grad()
            x = torch.randn(8, 4)
            loss = net(x).square().mean()
            if step >= {from_step}:
                loss = loss + later(x).square().mean()
            loss.backward()
            optimizer.step()
        """)
    seen = observe(text, tmp_path)
    assert seen.optimizer is not None and seen.optimizer.without_state == without


def test_every_hook_is_gone_afterwards(tmp_path: Path) -> None:
    before = (
        nn.Module.__call__,
        torch.autograd.backward,
        DataLoader.__init__,
        torch.optim.Optimizer.__init__,
    )
    run(PLAIN, steps(3), folder=tmp_path)
    after = (
        nn.Module.__call__,
        torch.autograd.backward,
        DataLoader.__init__,
        torch.optim.Optimizer.__init__,
    )
    assert after == before


def test_places_and_parts_of_the_program_are_seen(tmp_path: Path) -> None:
    seen = observe(PLAIN, tmp_path)
    lines = PLAIN.splitlines()
    assert seen.loader is not None and seen.loader.batch_size == 32 and seen.loader.shuffle
    assert seen.optimizer is not None and seen.optimizer.name == "AdamW"
    assert seen.optimizers == 1 and seen.backwards_per_step == 1
    for role, code in {
        "loader": "loader = DataLoader",
        "optimizer": "optimizer = ",
        "forward": "loss = criterion",
        "backward": "loss.backward",
        "step": "optimizer.step",
        "zero_grad": "optimizer.zero_grad",
    }.items():
        place = getattr(seen.places, role)
        assert lines[place.line - 1].strip().startswith(code), role


def test_forward_begins_with_the_first_of_several_models(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "loss = criterion(model(x), y)",
        "h = model[0](x)\n        h = model[1](h)\n        loss = criterion(model[2](h), y)",
    )
    place = observe(text, tmp_path).places.forward
    assert place is not None and "model[0]" in text.splitlines()[place.line - 1]


def test_a_look_at_what_the_model_gives_after_a_step_is_no_forward_pass(tmp_path: Path) -> None:
    after = (
        "optimizer.step()\n        model.eval()\n        looked = model(x)\n        model.train()"
    )
    text = PLAIN.replace("optimizer.step()", after)
    place = observe(text, tmp_path).places.forward
    assert place is not None and "criterion(model" in text.splitlines()[place.line - 1]


def test_a_program_that_ends_reports_what_was_measured_until_then(tmp_path: Path) -> None:
    end = run(PLAIN.replace("range(50)", "range(1)"), steps(100), folder=tmp_path)[-1]
    assert isinstance(end, Ended)
    assert end.steps == 7
    assert end.window is not None and end.window.steps == 6


def validating(seconds: float) -> str:
    """`PLAIN`, with two batches of validation after each epoch of seven steps, that long each."""
    text = PLAIN + textwrap.indent(
        textwrap.dedent(f"""
        model.eval()
        with torch.no_grad():
            for x, y in validation:
                time.sleep({seconds}); criterion(model(x), y)
        model.train()
        """),
        "    ",
    )
    return "import time\n" + text.replace(
        "loader =", "validation = DataLoader(dataset, batch_size=100)\nloader ="
    )


def test_validation_between_epochs_is_not_counted_as_training(tmp_path: Path) -> None:
    window = window_of(run(validating(0.5), steps(20), folder=tmp_path))
    assert window.validation_seconds >= 2 * 2 * 0.5
    assert max(window.step_seconds) < 2 * 0.5 < window.validation_seconds
    assert window.samples == 20 * 200 / 7 or abs(window.samples - 20 * 200 / 7) < 32


def test_a_window_makes_do_with_less_where_validation_takes_most_of_it(tmp_path: Path) -> None:
    slow = validating(0.2).replace("loss.backward()", "time.sleep(0.01); loss.backward()")
    window = window_of(run(slow, RunWindow(seconds=0.5), folder=tmp_path))
    assert 0.125 < window.seconds < 0.5  # of which seven steps are some 0.08, and 0.4 go by after
    assert 2 * 0.5 < window.validation_seconds < 2 * 0.5 + 0.4 + 0.2


def test_an_evaluation_in_every_step_is_part_of_it(tmp_path: Path) -> None:
    evaluates = (
        "model.eval()\nwith torch.no_grad():\n    model(x); time.sleep(0.05)\nmodel.train()\n"
    )
    text = "import time\n" + PLAIN + textwrap.indent(evaluates, "        ")
    window = window_of(run(text, steps(3), steps(4), folder=tmp_path))
    assert 4 * 0.05 <= window.gradless_seconds <= window.seconds
    assert not window.validations


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_micro_batches_compute_the_whole_batch_s_step(tmp_path: Path, parts: int) -> None:
    whole = losses(PLAIN, tmp_path, count=30)
    split = losses(PLAIN, tmp_path, count=30, setup=Setup(micro_batches=parts))
    assert split == pytest.approx(whole, rel=1e-4)


CLIPPED = "nn.utils.clip_grad_norm_(model.parameters(), 0.1)"
CLIPPED_IN_TWO = (
    "norm = nn.utils.get_total_norm([p.grad for p in model.parameters()]); "
    "nn.utils.clip_grads_with_norm_(model.parameters(), 0.1, norm)"
)


@pytest.mark.parametrize("clipped", [CLIPPED, CLIPPED_IN_TWO], ids=["at once", "in two"])
def test_micro_batches_hold_back_what_belongs_to_the_whole_batch(
    tmp_path: Path, clipped: str
) -> None:
    text = PLAIN.replace(
        "for epoch", "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\nfor epoch"
    ).replace(
        "        optimizer.step()\n",
        f"        {clipped}\n        optimizer.step()\n        scheduler.step()\n",
    )
    whole = losses(text, tmp_path, count=30)
    assert losses(text, tmp_path, count=30, setup=Setup(micro_batches=4)) == pytest.approx(
        whole, rel=1e-4
    )


def test_gradients_cleared_after_the_step_are_held_as_well(tmp_path: Path) -> None:
    text = PLAIN.replace("        optimizer.zero_grad()\n", "").replace(
        "        optimizer.step()\n", "        optimizer.step()\n        model.zero_grad()\n"
    )
    whole = losses(text, tmp_path, count=20)
    assert losses(text, tmp_path, count=20, setup=Setup(micro_batches=4)) == pytest.approx(
        whole, rel=1e-4
    )


def test_only_the_training_loader_is_set_up(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "loader =", "other = DataLoader(dataset, batch_size=100, num_workers=0)\nloader ="
    ).replace(
        "for epoch in range(50):",
        "for epoch in range(50):\n"
        "    sum(len(x) for x, y in other)\n    assert other.num_workers == 0",
    )
    key = observe(text, tmp_path).training_loader()
    seen = observe(
        text,
        tmp_path,
        setup=Setup(loader={"num_workers": 1, "persistent_workers": True}),
        loader=key,
    )
    assert seen.loader is not None
    assert (seen.loader.num_workers, seen.loader.batch_size, seen.loader.persistent_workers) == (
        1,
        32,
        True,
    )


def test_workers_deliver_the_same_batches(tmp_path: Path) -> None:
    text = PLAIN.replace("range(50)", "range(4)")
    own = losses(text, tmp_path, count=20)
    assert losses(
        text, tmp_path, count=20, setup=Setup(loader={"num_workers": 2})
    ) == pytest.approx(own, rel=1e-6)


def test_autocast_covers_forward_and_loss(tmp_path: Path) -> None:
    setup = Setup(precision=Precision(dtype="bfloat16"))
    assert observe(PLAIN, tmp_path, setup=setup).autocast == "bfloat16"
    assert observe(PLAIN, tmp_path).autocast == ""
    whole = losses(PLAIN, tmp_path, count=20)
    assert losses(PLAIN, tmp_path, count=20, setup=setup) == pytest.approx(whole, rel=0.05)


CHECKPOINTED = PLAIN.replace(
    "model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))",
    """
from torch.utils.checkpoint import checkpoint

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        return checkpoint(self.second, self.first(x), use_reentrant=False)

model = Net()
""",
)


def test_what_is_computed_again_for_the_backward_pass_is_no_step_of_its_own(tmp_path: Path) -> None:
    setup = Setup(precision=Precision(dtype="bfloat16"))
    whole = losses(CHECKPOINTED, tmp_path, count=20)
    assert losses(CHECKPOINTED, tmp_path, count=20, setup=setup) == pytest.approx(whole, rel=0.05)


def test_a_replayed_batch_takes_the_loader_out_of_the_step(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "for x, y in loader:", "for x, y in loader:\n        seen.append(x)"
    ).replace("for epoch", "seen = []\nfor epoch")
    window = window_of(
        run(text, RunWindow(seconds=0.0, steps=20, mode=REPLAY_DEVICE), folder=tmp_path)
    )
    assert window.mode == REPLAY_DEVICE
    assert window.samples == 20 * 32  # never the epoch's smaller last batch


@pytest.mark.parametrize("loader", [True, False])
def test_one_thread_computes_for_one_window(loader: bool, tmp_path: Path) -> None:
    text = PLAIN if loader else PLAIN.replace("in loader:", "in [(inputs, targets)] * 9:")
    text = text.replace("for epoch", "torch.set_num_threads(3)\nfor epoch", 1)
    asked = [RunWindow(seconds=0.0, steps=3, mode=mode) for mode in (AS_IS, ONE_THREAD, ONE_THREAD)]
    before = torch.get_num_threads()
    try:
        reports = run(text, *asked, RunWindow(seconds=0.0, steps=3), folder=tmp_path)
    finally:
        torch.set_num_threads(before)
    windows = [each for each in reports if isinstance(each, Window)]
    assert [each.threads for each in windows] == [3, 1, 1, 3]
    assert [each.mode for each in windows] == [AS_IS, ONE_THREAD, ONE_THREAD, AS_IS]


def test_numpy_has_one_thread_for_one_window(tmp_path: Path) -> None:
    modes = (AS_IS, ONE_BLAS_THREAD, AS_IS)
    asked = [
        each for mode in modes for each in (RunWindow(seconds=0.0, steps=3, mode=mode), Tell())
    ]
    reports = run(PLAIN, *asked, folder=tmp_path)
    own, limited, again = (each.blas_threads for each in reports if isinstance(each, Seen))
    assert (limited, again) == (min(1, own), own)


def test_a_drained_loader_runs_without_the_model(tmp_path: Path) -> None:
    window = window_of(run(PLAIN, RunWindow(seconds=0.05, mode=DRAIN), folder=tmp_path))
    assert window.samples > 0 and not window.losses and not window.phases


def test_a_program_without_a_loader_is_timed_and_says_what_it_cannot(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent("""
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        def get_batch():
            index = torch.randint(200, (16,))
            return inputs[index], targets[index]
        for step in range(1000):
            x, y = get_batch()
            loss = criterion(model(x), y)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
        """)
    reports = run(
        text,
        steps(10),
        RunWindow(seconds=0.1, mode=REPLAY_DEVICE),
        RunWindow(seconds=0.1, mode=DRAIN),
        folder=tmp_path,
    )
    assert window_of(reports).samples == 160
    assert "data" not in window_of(reports).phases
    assert all(
        isinstance(report, Unsupported) and "DataLoader" in report.reason for report in reports[-2:]
    )
    seen = observe(text, tmp_path)
    assert seen.loader is None and not seen.set_to_none


@pytest.mark.parametrize(
    ("target", "samples"), [("torch.ones(1)", 15), ("torch.ones(4)", 20)], ids=["graphs", "batch"]
)
def test_graphs_that_a_model_is_given_one_by_one_are_a_sample_each(
    target: str, samples: int, tmp_path: Path
) -> None:
    text = HEAD + textwrap.dedent(f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model
            def forward(self, graph):
                return self.inner(graph["nodes"]).sum()
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
        for step in range(1000):
            optimizer.zero_grad()
            edges = torch.zeros(4 if {target}.numel() == 4 else 2, 9)
            same = {{"edges": edges, "y": {target}}}
            parts = [{{**same, "nodes": torch.ones(nodes, 8)}} for nodes in (4, 5, 4)]
            sum(net(each) for each in parts).backward()
            optimizer.step()
        """)
    assert window_of(run(text, steps(3), steps(5), folder=tmp_path)).samples == samples


def test_a_closure_and_a_gan_are_counted_by_the_first_optimizer(tmp_path: Path) -> None:
    lbfgs = HEAD + textwrap.dedent("""
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        def closure():
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            return loss
        for step in range(100):
            optimizer.step(closure)
        """)
    seen = observe(lbfgs, tmp_path)
    assert seen.optimizer is not None and seen.optimizer.closure and seen.backwards_per_step > 1
    gan = HEAD + textwrap.dedent("""
        other = nn.Linear(8, 8)
        first = torch.optim.Adam(model.parameters())
        second = torch.optim.Adam(other.parameters())
        for epoch in range(100):
            for x, y in DataLoader(dataset, batch_size=20):
                first.zero_grad()
                criterion(model(other(x).detach()), y).backward()
                first.step()
                second.zero_grad()
                criterion(model(other(x)), y).backward()
                second.step()
        """)
    seen = observe(gan, tmp_path)
    assert seen.optimizers == 2 and 1.5 < seen.backwards_per_step <= 2 and len(seen.models) == 2
    assert seen.shapes == 1
    assert seen.samples_per_step == 20


@pytest.mark.parametrize(
    ("given", "calls"),
    [("x, number", 11), ("x, rate=number / 2", 11), ("x, 3, number % 2 == 0", 2), ("x", 1)],
)
def test_numbers_that_a_model_is_called_with_are_seen_in_every_step(
    tmp_path: Path, given: str, calls: int
) -> None:
    model = """
class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 2)
    def forward(self, x, number=1, double=False, *, rate=1.0): return self.inner(x)
model, number = Timed(), 0
optimizer ="""
    text = PLAIN.replace("\noptimizer =", model).replace("=32", "=20")
    text = text.replace("model(x), y)", f"model({given}), y); number += 1")
    seen = observe(text, tmp_path)
    assert (seen.shapes, seen.calls) == (1, calls)


def test_steps_are_counted_by_their_forward_passes(tmp_path: Path) -> None:
    passing = PLAIN.replace("=32", "=20").replace(
        "        loss = criterion(model(x), y)\n",
        "        loss = criterion(model(x), y); n += 1\n        if n % 8 == 0: continue\n",
    )
    text = passing.replace("\noptimizer =", "\nn = 0\noptimizer =", 1)
    reports = run(text, steps(14), steps(28), folder=tmp_path)
    assert dict(window_of(reports).forwards) == {2: 24, 4: 4}, "of the model and the loss"


def test_shapes_are_those_of_what_has_weights(tmp_path: Path) -> None:
    changing = PLAIN.replace("=32", "=20").replace(
        "criterion(model(x), y)", "criterion(model(x)[: 3 + n % 9], y[: 3 + n % 9]); n += 1"
    )
    assert (
        observe(changing.replace("\noptimizer =", "\nn = 0\noptimizer =", 1), tmp_path).shapes == 1
    )


def test_a_loader_made_anew_for_every_step_is_the_training_loader(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "for x, y in loader:", "for x, y in [next(iter(DataLoader(dataset, 20)))]:"
    )
    assert window_of(run(text, steps(10), folder=tmp_path)).samples == 200


FOLD = """
def fold(rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for epoch in range(4):
        for x, y in DataLoader(dataset, batch_size=20):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
"""


def test_the_next_fold_s_optimizer_and_model_are_found(tmp_path: Path) -> None:
    text = (
        HEAD
        + FOLD
        + textwrap.dedent("""
        for rate in range(1, 4):
            model = nn.Sequential(nn.Linear(8, 2))
            fold(rate)
        """)
    )
    reports = run(text, steps(39), steps(20), Tell(), folder=tmp_path)
    assert window_of(reports).steps == 20
    assert "forward" in window_of(reports).phases
    assert window_of(reports).samples == 20 * 20
    assert not seen_of(reports).models_made_anew


def test_the_next_fold_s_model_is_set_up_from_its_first_step_on(tmp_path: Path) -> None:
    text = (
        HEAD
        + textwrap.dedent(FOLD)
        + textwrap.dedent("""
        for rate in range(1, 4):
            model = nn.Sequential(nn.Linear(8, 2))
            model.ready = []
            model[0].register_forward_pre_hook(lambda *_: model.ready.append(hasattr(model, "own")))
            fold(rate)
            with open("ready.txt", "a") as file:
                print(len(model.ready), all(model.ready), file=file)
        """)
    )
    setup = Setup(model=(lambda module: setattr(module, "own", True),))
    run(text, steps(200), setup=setup, folder=tmp_path)
    assert (tmp_path / "ready.txt").read_text() == "40 True\n" * 3


TASKS = """
for episode in range(30):
    for task in range(3):
        fast = copy.deepcopy(model)
        inner = torch.optim.SGD(fast.parameters(), lr=0.1)
        for _ in range(STEPS):
            inner.zero_grad()
            criterion(fast(dataset[:20][0]), dataset[:20][1]).backward()
            inner.step()
    meta.step()
"""


MEMBERS = """
members = [nn.Sequential(nn.Linear(8, 2)) for _ in range(3)]
optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in members]
for step in range(60):
    x, y = dataset[:20]
    for number in (ORDER):
        optimizers[number].zero_grad()
        criterion(members[number](x), y).backward()
        optimizers[number].step()
"""


@pytest.mark.parametrize("order", ["0, 1, 2", "step % 3,"])
def test_models_that_are_trained_in_turns_are_there_for_good(order: str, tmp_path: Path) -> None:
    text = HEAD + MEMBERS.replace("ORDER", order)
    reports = run(text, steps(8), steps(8), Tell(), folder=tmp_path)
    assert not seen_of(reports).models_made_anew
    assert len(seen_of(reports).models) == 3
    assert window_of(reports).phases["forward"] > 0


def test_what_has_led_before_leads_again_at_once(tmp_path: Path) -> None:
    """Members that are trained for an epoch each, in turns."""
    text = HEAD + MEMBERS.replace("ORDER", "step // 30 % 3,").replace("range(60)", "range(360)")
    reports = run(text, steps(100), steps(150), Tell(), folder=tmp_path)
    assert window_of(reports).samples == 150 * 20
    assert not seen_of(reports).models_made_anew


def test_models_and_optimizers_of_past_folds_are_let_go(tmp_path: Path) -> None:
    text = (
        HEAD
        + FOLD.replace("optimizer = ", "optimizer = kept_weakly = ")
        + """
import gc, weakref
gc.disable()
known, alive = [], 0
for rate in range(1, 6):
    model = nn.Sequential(nn.Linear(8, 2))
    known.append(weakref.ref(model))
    fold(rate)
    alive = max(alive, sum(each() is not None for each in known))
gc.enable()
with open("alive.txt", "w") as file:
    print("alive", alive, file=file)
"""
    )
    run(text, steps(500), folder=tmp_path)
    assert (tmp_path / "alive.txt").read_text() == "alive 1\n"


def test_zero_grad_is_hooked_once_however_many_folds_there_are(tmp_path: Path) -> None:
    text = (
        HEAD
        + FOLD.replace("range(4)", "range(1)")
        + """
import sys
depths = []
called = 0

def count(frame, event, _):
    global called
    called += event == "call" and frame.f_code.co_name == "zero_grad"

for rate in range(1, 40):
    model = nn.Sequential(nn.Linear(8, 2))
    fold(rate)
    called = 0
    sys.setprofile(count)
    torch.optim.SGD(model.parameters(), lr=0.1).zero_grad()
    sys.setprofile(None)
    depths.append(called)
with open("depth.txt", "w") as file:
    print(max(depths), file=file)
"""
    )
    run(text, steps(1000), setup=Setup(set_to_none=True), folder=tmp_path)
    assert (tmp_path / "depth.txt").read_text() == "2\n"  # ours, and torch's


def test_a_helper_s_short_lived_optimizer_gives_the_lead_back(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
def optimizer_of(module):
    return torch.optim.SGD(module.parameters(), lr=0.1)

def train(module, optimizer, batch):
    optimizer.zero_grad()
    x, y = batch
    criterion(module(x), y).backward()
    optimizer.step()

main = optimizer_of(model)
for epoch in range(30):
    for x, y in DataLoader(dataset, batch_size=20):
        train(model, main, (x, y))
    probe = nn.Sequential(nn.Linear(8, 2))
    adapted = optimizer_of(probe)
    for _ in range(5):
        train(probe, adapted, dataset[:20])
"""
    )
    reports = run(text, steps(40), steps(20), Tell(), folder=tmp_path)
    assert window_of(reports).steps == 20
    # Two epochs of ten steps, and the probe's steps between them.
    assert window_of(reports).samples < 2 * 20 * 20
    assert not seen_of(reports).models_made_anew


def test_a_step_before_all_training_is_none(tmp_path: Path) -> None:
    text = PLAIN.replace("for epoch", "optimizer.step()\nfor epoch")
    assert window_of(run(text, steps(7), folder=tmp_path)).samples == 200


def test_models_that_the_optimizer_s_step_comes_before_are_timed(tmp_path: Path) -> None:
    meta = "import copy\nmeta = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text = HEAD + meta + TASKS.replace("STEPS", "2").replace("    meta.step()\n", "")
    text = text.replace("    for task", "    meta.step()\n    for task")
    reports = run(text, steps(8), steps(8), Tell(), folder=tmp_path)
    assert window_of(reports).samples > 0
    assert window_of(reports).phases["forward"] > 0
    assert seen_of(reports).models_made_anew


@pytest.mark.parametrize("steps_each", [1, 2, 5])
def test_models_that_are_made_for_each_task_are_timed(steps_each: int, tmp_path: Path) -> None:
    meta = "import copy\nmodel = nn.Sequential(nn.Linear(8, 2))\n"
    meta += "meta = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text = HEAD + meta + TASKS.replace("STEPS", str(steps_each))
    reports = run(text, steps(12), steps(12), Tell(), folder=tmp_path)
    assert window_of(reports).steps == 12
    assert window_of(reports).samples == 12 * 20
    assert window_of(reports).phases["forward"] > 0
    assert seen_of(reports).models_made_anew
    assert seen_of(reports).models


def test_gradients_without_a_backward_pass_train_on_what_the_model_was_given(
    tmp_path: Path,
) -> None:
    text = PLAIN.replace("for x, y in loader:", "for x, y in [dataset[:20]] * 30:").replace(
        "loss.backward()", "own_gradients(loss)"
    )
    own = """
def own_gradients(loss):
    parameters = list(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
        parameter.grad = gradient
"""
    text = text.replace("for epoch", own + "for epoch")
    reports = run(text, steps(9), steps(9), Tell(), folder=tmp_path)
    assert window_of(reports).samples == 9 * 20
    assert len(window_of(reports).losses) == 9
    assert seen_of(reports).makes_own_gradients


def test_a_loop_that_follows_the_first_one_is_not_mixed_with_it(tmp_path: Path) -> None:
    text = HEAD + FOLD + "fold(1)\n" + PLAIN.removeprefix(HEAD)
    reports = run(text, steps(30), steps(100), folder=tmp_path)
    assert window_of(reports).steps == 30
    ended = reports[-1]
    assert isinstance(ended, Ended) and ended.steps == 40 and ended.window is None
    assert ended.loop_seconds is not None and ended.loop_seconds > 0


def test_what_a_closure_computes_is_not_the_optimizers(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent("""
        import time
        weight = torch.zeros(8, requires_grad=True)
        optimizer = torch.optim.LBFGS([weight], max_iter=4)
        def closure():
            optimizer.zero_grad()
            time.sleep(0.01)
            loss = (inputs @ weight - targets).square().mean()
            loss.backward()
            return loss
        for step in range(100):
            optimizer.step(closure=closure) if step % 2 else optimizer.step(closure)
    """)
    window = window_of(run(text, steps(2), Tell(), steps(8), folder=tmp_path))
    assert window.phases["forward"] > 8 * 0.01
    assert set(window.phases) == {"forward", "backward", "optimizer"}
    assert window.phases["optimizer"] < window.phases["forward"]


def test_gradients_that_a_loss_is_made_of_are_backward_passes_time(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent("""
        from torch.autograd import grad
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        inputs.requires_grad_()
        while True:
            for _ in range(20):
                gradient, = grad(model(inputs).sum(), inputs, create_graph=True)
            optimizer.zero_grad()
            gradient.square().mean().backward()
            optimizer.step()
    """)
    window = window_of(run(text, steps(2), Tell(), steps(20), folder=tmp_path))
    seconds = {phase: spent / window.seconds for phase, spent in window.phases.items()}
    assert seconds["backward"] > 0.3 > seconds["optimizer"]
    assert observe(text, tmp_path).backwards_per_step == 1
    assert torch.autograd.grad.__module__ == "torch.autograd"


COUNTED = (
    HEAD
    + """
loader = DataLoader(dataset, batch_size=20)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(1000):
    for at, (x, y) in enumerate(loader):
        first = at // 4 * 4
        criterion(model(x), y).backward()
        if at + 1 == first + min(4, len(loader) - first):
            optimizer.step()
            optimizer.zero_grad()
"""
)


def test_a_replay_goes_on_where_steps_depend_on_the_length_of_an_epoch(tmp_path: Path) -> None:
    # Ten batches an epoch: steps of 4, 4 and 2; an epoch that never ends would have no more.
    reports = run(
        COUNTED,
        steps(6),
        RunWindow(seconds=0.0, steps=30, mode=REPLAY_DEVICE),
        steps(6),
        folder=tmp_path,
    )
    as_is, replay, after = (each for each in reports if isinstance(each, Window))
    assert (replay.mode, replay.steps) == (REPLAY_DEVICE, 30)
    assert replay.samples > 20 * 30
    assert after.steps == 6 and as_is.samples / as_is.steps <= 80


IN_TURNS = (
    HEAD
    + """
other = nn.Linear(8, 2)
loader = DataLoader(dataset, batch_size=8)
policy = torch.optim.SGD(model.parameters(), lr=1e-2)
value = torch.optim.AdamW(other.parameters(), lr=1e-2)
for epoch in range(9):
    for net, optimizer in ((model, policy), (other, value)):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
"""
)


def test_loops_that_take_turns_are_measured_together(tmp_path: Path) -> None:
    first = run(IN_TURNS, steps(100), folder=tmp_path)[-1]
    assert isinstance(first, Ended) and first.loop_seconds is not None and first.steps == 25
    reports = run(IN_TURNS, steps(10), steps(60), Tell(), passed_loops=1, folder=tmp_path)
    window, seen = window_of(reports), seen_of(reports)
    assert window.steps == 60 and seen.taking_turns and seen.passed_loops == 1
    assert seen.optimizer is not None and seen.optimizer.name == "AdamW"
    assert 1.5 < window.samples / (60 * 8) < 2.7  # those of the other loop too


def test_a_later_loop_is_measured_as_if_it_were_the_first(tmp_path: Path) -> None:
    text = HEAD + FOLD + "fold(1)\n" + PLAIN.removeprefix(HEAD).replace("range(50)", "range(3)")
    reports = run(text, steps(10), Tell(), steps(100), passed_loops=1, folder=tmp_path)
    ready, window, seen = reports[:3]
    assert isinstance(ready, Ready)
    assert isinstance(window, Window) and len(window.losses) == 11  # with the first step's
    alone = run(PLAIN, steps(10), Tell(), folder=tmp_path)[2]
    assert isinstance(seen, Seen) and isinstance(alone, Seen)
    assert seen.passed_loops == 1
    assert seen.optimizers == 1 and seen.backwards_per_step == 1
    assert seen.optimizer is not None and seen.optimizer.name == "AdamW"
    assert seen.batch == alone.batch and seen.samples_per_step == alone.samples_per_step
    assert (
        seen.places.step is not None
        and "optimizer.step()" in text.splitlines()[seen.places.step.line - 1]
    )
    assert seen.places.step.line > text.splitlines().index("fold(1)")
    assert isinstance(reports[-1], Ended) and reports[-1].steps == 3 * 7


def test_a_step_without_a_module_counts_as_a_sample(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent("""
        weight = nn.Parameter(torch.zeros(8))
        optimizer = torch.optim.SGD([weight], lr=1e-2)
        while True:
            optimizer.zero_grad()
            (inputs @ weight - targets).square().mean().backward()
            optimizer.step()
        """)
    assert window_of(run(text, steps(10), folder=tmp_path)).samples == 10


def test_the_users_own_scaler_does_not_scale_the_losses_that_are_kept(tmp_path: Path) -> None:
    text = PLAIN.replace("for epoch", "scaler = torch.amp.GradScaler('cpu')\nfor epoch").replace(
        "        loss.backward()\n        optimizer.step()\n",
        "        scaler.scale(loss).backward()\n"
        "        scaler.step(optimizer)\n        scaler.update()\n",
    )
    assert max(losses(text, tmp_path, count=10)) < 2
    assert observe(text, tmp_path).scaler


OVERFLOWING = PLAIN.replace(
    "for epoch", "scaler = torch.amp.GradScaler('cpu', growth_interval=9)\nnumber = 0\nfor epoch"
).replace(
    "        loss.backward()\n        optimizer.step()\n",
    "        number += 1\n"
    "        scaler.scale(loss * (1e38 if number in (1, 2, 5) else 1)).backward()\n"
    "        scaler.step(optimizer)\n        scaler.update()\n",
)


@pytest.mark.parametrize("optimizer", ["AdamW", "fused AdamW"])
def test_steps_that_a_scaler_leaves_out_are_counted_and_are_no_accumulation(
    optimizer: str, tmp_path: Path
) -> None:
    text = OVERFLOWING
    if optimizer == "fused AdamW":  # steps by itself, and is told of the overflow
        text = text.replace("lr=1e-2)", "lr=1e-2, fused=True)")
    window, seen, later = run(text, steps(6), Tell(), steps(5), folder=tmp_path)[1:4]
    assert isinstance(seen, Seen) and isinstance(window, Window) and isinstance(later, Window)
    assert (window.skipped_steps, later.skipped_steps) == (3, 0)
    assert seen.micro_batches == seen.backwards_per_step == 1
    assert seen.samples_per_step == pytest.approx(200 / 7, rel=0.15)
    overflowing = [number for number, loss in enumerate(window.losses, 1) if loss > 1]
    assert overflowing == [1, 2, 5] and max(later.losses) < 1
    assert len(window.losses) == (10 if optimizer == "AdamW" else 7)


def test_steps_left_out_in_a_loop_before_are_not_of_this_one(tmp_path: Path) -> None:
    first = OVERFLOWING.replace("range(50)", "range(1)").replace("(1, 2, 5)", "(1, 3)")
    text = first.replace("AdamW", "SGD") + PLAIN[PLAIN.index("\nloader") :]
    window = window_of(run(text, steps(6), folder=tmp_path, passed_loops=1))
    assert (window.skipped_steps, len(window.losses)) == (0, 7)


def test_steps_that_autotunes_own_scaler_leaves_out_are_counted(tmp_path: Path) -> None:
    text = PLAIN.replace("loss.backward()", "(loss * (1e38 if epoch == 1 else 1)).backward()")
    setup = Setup(precision=Precision(dtype="float16", scaled=True))
    first, second = run(text, steps(6), steps(7), setup=setup, folder=tmp_path)[1:3]
    assert isinstance(first, Window) and isinstance(second, Window)
    assert (first.skipped_steps, second.skipped_steps) == (0, 7)


def test_a_step_that_the_program_leaves_out_does_not_leave_gradients_scaled(tmp_path: Path) -> None:
    text = "import json, pathlib\n" + PLAIN.replace(
        "        optimizer.step()\n",
        "        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1e9)))\n"
        "        pathlib.Path('norms.json').write_text(json.dumps(norms))\n"
        "        if len(norms) % 3: optimizer.step()\n",
    ).replace("for epoch", "norms = []\nfor epoch", 1)
    setup = Setup(precision=Precision(dtype="float16", scaled=True))
    run(text, steps(10), setup=setup, folder=tmp_path)
    assert max(json.loads((tmp_path / "norms.json").read_text())) < 100


def test_an_optimizer_that_loads_its_state_is_still_one(tmp_path: Path) -> None:
    resumed = PLAIN.replace(
        "for epoch", "optimizer.load_state_dict(optimizer.state_dict())\nfor epoch", 1
    )
    assert observe(resumed, tmp_path).optimizers == 1


def test_a_replica_of_a_module_is_called_itself(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "for epoch",
        "import json, pathlib\n"
        "model(inputs[:2])\n"
        "replica = model._replicate_for_data_parallel()\n"
        "replica.forward = lambda x: 'the replica'\n"
        "pathlib.Path('said.json').write_text(json.dumps(replica(inputs[:2])))\n"
        "for epoch",
        1,
    )
    run(text, steps(2), folder=tmp_path)
    assert (tmp_path / "said.json").read_text() == '"the replica"'


def test_a_module_in_a_dataset_is_not_timed_by_a_worker(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent("""
        class Scaled(torch.utils.data.Dataset):
            scale = nn.BatchNorm1d(8).eval()
            def __len__(self): return 64
            def __getitem__(self, i): return self.scale(inputs[i : i + 1])[0].detach(), targets[i]
        data = Scaled()
        data[0]  # hooked, as any module that is called
        loader = DataLoader(data, batch_size=8, num_workers=1, multiprocessing_context="fork")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        for epoch in range(9):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        """)

    class Clock(HostClock):
        def __init__(self) -> None:
            super().__init__()
            here, now = os.getpid(), self.now
            self.now = lambda: now() if os.getpid() == here else pytest.fail("timed by a worker")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.workload.intercept.HostClock", Clock)
        reports = run(text, steps(10), folder=tmp_path)
    assert window_of(reports).samples == 80


def test_a_step_that_the_second_optimizer_left_out_is_none_of_the_firsts(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "for epoch",
        "scaler = torch.amp.GradScaler('cpu')\nsecond = nn.Linear(8, 2)\n"
        "other = torch.optim.SGD(second.parameters(), lr=0.1)\nfor epoch",
        1,
    ).replace(
        "        loss.backward()\n        optimizer.step()\n",
        "        other.zero_grad()\n"
        "        scaler.scale(loss).backward()\n"
        "        scaler.scale(second(x).mean() * 1e38).backward()\n"
        "        scaler.step(optimizer)\n        scaler.step(other)\n        scaler.update()\n",
    )
    assert window_of(run(text, steps(6), folder=tmp_path)).skipped_steps == 0


def test_what_is_drawn_from_the_training_loader_for_a_validation_is_no_wait(
    tmp_path: Path,
) -> None:
    text = PLAIN.replace("TensorDataset(inputs, targets)\n", "Slow(inputs, targets)\n").replace(
        "dataset =",
        "import time\nclass Slow(TensorDataset):\n    def __getitem__(self, index):\n"
        "        time.sleep(0.001)\n        return super().__getitem__(index)\ndataset =",
    )
    evaluates = "with torch.no_grad():\n    for x, y in loader: model.eval()(x)\nmodel.train()\n"
    text += textwrap.indent(evaluates, "    ")
    window = window_of(run(text, steps(3), steps(5), folder=tmp_path))
    assert window.validations == 1
    assert window.phases["data"] <= window.seconds


def test_a_part_that_is_called_after_the_whole_is_nudged_with_it(tmp_path: Path) -> None:
    text = PLAIN.replace("model(x), y)\n", "model(x), y) + model[2](model[0](x)).mean()\n")
    plain = losses(text, tmp_path, count=5)
    nudged = losses(text, tmp_path, count=5, setup=Setup(nudge=1e-6))
    assert nudged != plain
    assert nudged == pytest.approx(plain, rel=1e-4)


def test_a_worker_does_not_look_for_modules(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent("""
        class Called(torch.utils.data.Dataset):
            def __len__(self): return 64
            def __getitem__(self, i):
                nn.Identity()(inputs[i])
                return inputs[i], nn.Module.__call__.__module__.startswith("torch.")
        loader = DataLoader(Called(), batch_size=8, num_workers=1, multiprocessing_context="fork")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        for x, is_torchs in loader:
            assert is_torchs.all(), "with each call of a transform all classes of modules change"
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        """)
    assert window_of(run(text, steps(4), folder=tmp_path)).samples == 32


def test_modules_that_make_batches_take_the_time_of_data(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent("""
        import time
        class Slow(nn.Module):
            def forward(self, x):
                time.sleep(0.001)
                return x
        class Drawn(torch.utils.data.Dataset):
            change = Slow()
            def __len__(self): return 64
            def __getitem__(self, i): return self.change(inputs[i]), targets[i]
        data = Drawn()
        data[0]
        loader, others = DataLoader(data, batch_size=8), DataLoader(Drawn(), batch_size=8)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        for epoch in range(20):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                for x, y in others:
                    model(x)
        """)
    window = window_of(run(text, steps(8), steps(16), folder=tmp_path))
    assert window.phases["data"] > 16 * 8 * 0.001
    assert sum(window.phases.values()) <= window.seconds
    assert window.validation_seconds > 8 * 8 * 0.001
