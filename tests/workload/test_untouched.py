"""What a program does with its own objects beside training, which our hooks must not change."""

import textwrap
from pathlib import Path

import pytest

from autotune.workload.conversation import Ended, RunWindow, Unsupported
from autotune.workload.setup import Setup
from autotune.workload.window import (
    AGAIN,
    BETWEEN,
    DENORMALS,
    FLOPS,
    OPERATIONS,
    ROUNDING,
    SAVED,
)
from tests.workload.programs import HEAD, PLAIN, observe, run, steps, window_of


def test_a_model_with_lazy_layers_is_seen_once_they_are_there(tmp_path: Path) -> None:
    changed: list[int] = []
    text = PLAIN.replace("nn.Linear(8, 16)", "nn.LazyLinear(16)").replace(
        "optimizer = ", "model(torch.zeros(1, 8))\noptimizer = "
    )
    setup = Setup(model=[lambda module: changed.append(len(list(module.parameters())))])
    seen = observe(text, tmp_path, setup=setup)
    assert changed == [4]
    assert [model.parameters for model in seen.models] == [8 * 16 + 16 + 16 * 2 + 2]


LOCALS = HEAD + textwrap.dedent(
    """
    def train(rate, kind):
        options = locals()
        loader = DataLoader(dataset, batch_size=32)
        optimizer = kind(model.parameters(), lr=rate)
        assert sorted(options) == ["kind", "rate"], options
        for epoch in range(50):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()

    class Mine(torch.optim.SGD):
        def __init__(self, parameters, **options):
            super().__init__(parameters, **options)

    train(0.1, {kind})
    """
)


@pytest.mark.parametrize("kind", ["torch.optim.SGD", "Mine"])
def test_the_locals_of_a_programs_functions_stay_its_own(tmp_path: Path, kind: str) -> None:
    text = LOCALS.replace("{kind}", kind)
    place = observe(text, tmp_path).places.optimizer
    assert place is not None
    assert "kind(model.parameters()" in text.splitlines()[place.line - 1]


@pytest.mark.parametrize(
    ("model", "copied"),
    [
        ("nn.GRU(8, 2)", "copy.deepcopy(model)"),
        ("nn.GRU(8, 2)", "pickle.loads(pickle.dumps(model))"),
        (
            "nn.utils.parametrizations.weight_norm(nn.Linear(8, 2))",
            "copy.deepcopy(model)",
        ),
    ],
)
def test_a_copy_of_a_model_computes_with_its_own_weights(
    tmp_path: Path, model: str, copied: str
) -> None:
    text = HEAD + textwrap.dedent(
        f"""
        import copy, pickle
        model = {model}
        loader = DataLoader(dataset, batch_size=32)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        whole = lambda given: given[0] if isinstance(given, tuple) else given
        done = 0
        for epoch in range(50):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(whole(model(x)), y).backward()
                optimizer.step()
                done += 1
                if done == 4:
                    other = {copied}
                    for weight in other.parameters():
                        weight.data.mul_(2)
                    assert not torch.equal(whole(other(x)), whole(model(x)))
        """
    )
    assert window_of(run(text, steps(6), folder=tmp_path)).steps == 6


def test_a_loader_can_be_sent_to_another_process(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "optimizer = ",
        "import copy, pickle\nassert len(pickle.loads(pickle.dumps(loader))) == len(loader)\n"
        "assert len(copy.deepcopy(loader)) == 7\noptimizer = ",
    )
    assert observe(text, tmp_path).loader is not None


def test_a_validation_that_keeps_its_gradients_is_no_training(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent(
        """
        import time
        class Slow(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 2)
            def forward(self, x):
                time.sleep(0 if self.training else 0.02)
                return self.inner(x)
        model = Slow()
        loader = DataLoader(dataset, batch_size=50)
        other = DataLoader(dataset, batch_size=100)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(50):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            model.eval()
            right = sum(int((model(x).argmax(1) == y).sum()) for x, y in other)
        """
    )
    window = window_of(run(text, steps(4), steps(12), folder=tmp_path))
    assert window.validation_seconds >= 3 * 2 * 0.02
    assert window.samples == 12 * 50


STATISTICS = PLAIN.replace(
    "optimizer = ",
    "total = sum(x.mean() for x, _ in {loader})\nsizes = {len(x) for x, _ in {loader}}\n"
    "assert sizes == {{32, 8}}, sizes\noptimizer = ",
)


@pytest.mark.parametrize("loader", ["loader", "DataLoader(dataset, batch_size=32)"])
def test_a_pass_for_statistics_is_no_drawing_ahead(tmp_path: Path, loader: str) -> None:
    text = STATISTICS.replace("{loader}", loader).replace("{{", "{").replace("}}", "}")
    seen = observe(text, tmp_path)
    assert seen.loader is not None
    assert (seen.loader.ahead, seen.loader.beside) == (0, 0)
    assert seen.samples_per_step == pytest.approx(30, abs=3)


def test_a_pass_for_statistics_over_another_loader_has_whole_batches(tmp_path: Path) -> None:
    text = STATISTICS.replace("{loader}", "DataLoader(dataset, batch_size=32)")
    text = text.replace("{{", "{").replace("}}", "}")
    key = observe(text, tmp_path).training_loader()
    parts = observe(text, tmp_path, setup=Setup(micro_batches=2), loader=key)
    assert parts.micro_batches == 2


def test_a_loader_that_is_begun_again_within_its_own_loop_is_seen(tmp_path: Path) -> None:
    inner = "        optimizer.step()\n        next(iter(loader))\n"
    text = PLAIN.replace("        optimizer.step()\n", inner)
    seen, plain = observe(text, tmp_path), observe(PLAIN, tmp_path)
    assert seen.loader is not None and plain.loader is not None
    assert (seen.loader.nested, plain.loader.nested) == (True, False)


def test_steps_that_draw_from_two_loaders_are_seen(tmp_path: Path) -> None:
    text = PLAIN.replace("optimizer = ", "other = DataLoader(dataset, batch_size=32)\noptimizer = ")
    text = text.replace("for x, y in loader", "for (x, y), _ in zip(loader, other)")
    seen = observe(text, tmp_path)
    assert seen.loader is not None and seen.loader.beside == 1


def test_a_loop_that_begins_with_an_empty_step_is_counted_from_its_first_gradients(
    tmp_path: Path,
) -> None:
    text = HEAD + textwrap.dedent(
        """
        loader = DataLoader(dataset, batch_size=40)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(50):
            for x, y in loader:
                optimizer.step()
                optimizer.zero_grad()
                criterion(model(x), y).backward()
        """
    )
    seen = observe(text, tmp_path)
    assert seen.backwards_per_step == pytest.approx(1.0, abs=0.11)
    window = window_of(run(text, steps(4), steps(10), folder=tmp_path))
    assert window.samples == 10 * 40


WITHIN = HEAD + textwrap.dedent(
    """
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(30)), nn.Linear(8, 2))
    loader = DataLoader(dataset, batch_size=40)
    each = {p: torch.optim.SGD([p], lr=1e-3) for p in model.parameters()}
    def update(p):
        each[p].step()
        each[p].zero_grad()
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    for epoch in range(50):
        for x, y in loader:
            criterion(model(x), y).backward()
    """
)


def test_optimizers_that_step_within_the_backward_pass_are_one_step(tmp_path: Path) -> None:
    window = window_of(run(WITHIN, steps(4), steps(10), folder=tmp_path))
    assert window.samples == 10 * 40


def test_what_torch_lets_nobody_begin_within_a_backward_pass_is_not_begun(tmp_path: Path) -> None:
    modes = (DENORMALS, OPERATIONS, SAVED, AGAIN, ROUNDING, FLOPS, BETWEEN)
    looks = [RunWindow(seconds=0.0, steps=2, mode=mode) for mode in modes]
    reports = run(WITHIN, steps(4), *looks, steps(10), folder=tmp_path)
    refused = [each for each in reports if isinstance(each, Unsupported)]
    assert len(refused) == len(modes)
    assert all("inside the backward pass" in each.reason for each in refused)
    assert window_of(reports).samples == 10 * 40


FUNCTIONAL = HEAD + textwrap.dedent(
    """
    weights = [p.detach().clone().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.SGD(weights, lr=1e-3)
    x, y = torch.randn(40, 8), torch.randint(0, 2, (40,))
    model(x)
    for step in range(500):
        optimizer.zero_grad()
        hidden = nn.functional.relu(nn.functional.linear(x, weights[0], weights[1]))
        loss = nn.functional.cross_entropy(nn.functional.linear(hidden, *weights[2:]), y)
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights)):
            weight.grad = gradient
        optimizer.step()
    """
)


def test_a_step_without_a_loader_that_calls_no_module_is_one_sample(tmp_path: Path) -> None:
    window = window_of(run(FUNCTIONAL, steps(4), steps(10), folder=tmp_path))
    assert window.samples == 10
    assert len(window.losses) == 10
    assert window.losses[0] > window.losses[-1]


SIZES = HEAD + textwrap.dedent(
    """
    def fit(width):
        model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 2))
        loader = DataLoader(dataset, batch_size=40)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(8):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()

    for width in {widths}:
        fit(width)
    """
)


def test_a_training_of_another_size_is_another_loop(tmp_path: Path) -> None:
    folds = run(SIZES.replace("{widths}", "16, 16, 16"), steps(90), folder=tmp_path)
    assert window_of(folds).steps == 90
    sizes = run(SIZES.replace("{widths}", "16, 64, 16"), steps(90), folder=tmp_path)
    assert isinstance(sizes[-1], Ended)
    assert sizes[-1].loop_seconds is not None and sizes[-1].steps == 40


def test_the_second_of_trainings_of_several_sizes_can_be_measured(tmp_path: Path) -> None:
    text = SIZES.replace("{widths}", "16, 64")
    reports = run(text, steps(20), passed_loops=1, folder=tmp_path)
    assert window_of(reports).steps == 20
