"""Training programs of every habit are seen and set up as plain ones are."""

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from autotune.knobs import by_name, unconfirmed, unobserved
from autotune.knobs.knob import Config, Skip
from autotune.workload import intercept
from autotune.workload.conversation import Ended, Fault, RunWindow, Tell, Unsupported
from autotune.workload.observe import compiling_seconds
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup
from autotune.workload.steps.replayed import Replayed
from autotune.workload.window import DRAIN, REPLAY_DEVICE, REPLAY_HOST, Window
from tests import builders
from tests.workload.programs import HEAD, PLAIN, observe, run, seen_of, steps, window_of


def program(text: str) -> str:
    """`text` as a program behind the usual imports, data and model."""
    return HEAD + textwrap.dedent(text)


def test_a_model_that_is_evaluated_first_is_set_up_when_it_is_trained(tmp_path: Path) -> None:
    changed: list[nn.Module] = []
    evaluation = "model.eval()\nwith torch.no_grad():\n    model(inputs)\nmodel.train()\n"
    text = PLAIN.replace("for epoch", evaluation + "for epoch")
    seen = observe(text, tmp_path, setup=Setup(model=[changed.append]))
    assert [type(model).__name__ for model in changed] == ["Sequential"]
    assert [model.name for model in seen.models] == ["Sequential"]


def test_a_frozen_model_is_set_up_once_it_is_trained(tmp_path: Path) -> None:
    changed: list[nn.Module] = []
    frozen = "model.requires_grad_(False)\nmodel(inputs)\nmodel.requires_grad_(True)\n"
    observe(
        PLAIN.replace("for epoch", frozen + "for epoch"),
        tmp_path,
        setup=Setup(model=[changed.append]),
    )
    assert len(changed) == 1


def test_a_teacher_without_gradients_is_part_of_forward(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "model = ",
        "import time\nclass Teacher(nn.Linear):\n    def forward(self, x):\n"
        "        time.sleep(0.02)\n        return super().forward(x)\n"
        "teacher = Teacher(8, 2)\nmodel = ",
    ).replace(
        "        optimizer.zero_grad()\n",
        "        optimizer.zero_grad()\n        with torch.no_grad():\n            teacher(x)\n",
    )
    window = window_of(run(text, steps(5), folder=tmp_path))
    assert window.phases["forward"] >= 5 * 0.02
    assert window.validation_seconds == 0


def test_a_compiled_model_trains_and_is_seen_as_compiled(tmp_path: Path) -> None:
    text = program("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model
            def forward(self, x):
                return self.inner(x)
        net = Net()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        net = torch.compile(net, backend="eager")
        for epoch in range(50):
            for x, y in DataLoader(dataset, batch_size=50):
                optimizer.zero_grad()
                loss = criterion(net(x), y)
                loss.backward()
                optimizer.step()
        """)
    before = compiling_seconds()
    seen = observe(text, tmp_path)
    assert [(model.name, model.compiled) for model in seen.models] == [("Net", "default")]
    assert seen.compiling_seconds > before


def test_a_compiled_training_step_is_seen(tmp_path: Path) -> None:
    text = program("""
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        @torch.compile(backend="eager")
        def compute(x, y):
            return criterion(model(x), y)
        for epoch in range(50):
            for x, y in DataLoader(dataset, batch_size=50):
                optimizer.zero_grad()
                compute(x, y).backward()
                optimizer.step()
        """)
    seen = observe(text, tmp_path)
    assert seen.backwards_per_step == 1 and seen.samples_per_step == 50


GAN = program("""
    other = nn.Linear(8, 8)
    first = torch.optim.Adam(model.parameters())
    second = torch.optim.Adam(other.parameters())
    third = torch.optim.SGD(other.parameters(), lr=0.1)
    for epoch in range(100):
        for x, y in DataLoader(dataset, batch_size=20):
            for optimizer in (first, second, third):
                optimizer.zero_grad()
                criterion(model(other(x)), y).backward()
                optimizer.step()
    """)


def test_each_optimizer_has_its_own_place(tmp_path: Path) -> None:
    places = observe(GAN, tmp_path).places
    lines = GAN.splitlines()
    assert places.optimizer is not None
    assert lines[places.optimizer.line - 1].startswith("first = ")
    assert [lines[place.line - 1][:9] for place in places.more_optimizers] == ["second = "]


def test_a_loader_of_a_class_of_the_programs_own_is_where_it_is_built(tmp_path: Path) -> None:
    text = program("""
        class Endless(DataLoader):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.own = super().__iter__()
            def __iter__(self):
                while True:
                    try:
                        yield next(self.own)
                    except StopIteration:
                        self.own = super().__iter__()
        loader = Endless(dataset, batch_size=50)
        optimizer = torch.optim.AdamW(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        """)
    places = observe(text, tmp_path).places
    lines = text.splitlines()
    assert places.loader is not None and places.loader_class is not None
    assert lines[places.loader.line - 1].startswith("loader = Endless")
    assert "super().__init__" in lines[places.loader_class.line - 1]
    drained = window_of(run(text, RunWindow(seconds=0.05, mode=DRAIN), folder=tmp_path))
    assert drained.samples > 200


def test_an_optimizer_of_a_class_of_the_programs_own_is_where_it_is_built(tmp_path: Path) -> None:
    text = program("""
        class Own(torch.optim.SGD):
            def __init__(self, parameters):
                super().__init__(parameters, lr=0.1)
        optimizer = Own(model.parameters())
        for x, y in DataLoader(dataset, batch_size=10):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        """)
    place = observe(text, tmp_path).places.optimizer
    assert place is not None
    assert text.splitlines()[place.line - 1].startswith("optimizer = Own")


def test_a_loader_that_is_started_anew_for_every_batch_gives_whole_groups(tmp_path: Path) -> None:
    text = program("""
        loader = DataLoader(dataset, batch_size=20, shuffle=True)
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(100):
            x, y = next(iter(loader))
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        """)
    window = window_of(run(text, steps(5), setup=Setup(micro_batches=2), folder=tmp_path))
    assert window.samples == 5 * 20


def test_each_of_two_loaders_is_replayed_its_own_batch(tmp_path: Path) -> None:
    text = program("""
        pairs = DataLoader(dataset, batch_size=20)
        singles = DataLoader(TensorDataset(inputs), batch_size=10)
        optimizer = torch.optim.AdamW(model.parameters())
        for epoch in range(100):
            for (x, y), (z,) in zip(pairs, singles):
                optimizer.zero_grad()
                (criterion(model(x), y) + model(z).mean()).backward()
                optimizer.step()
        """)
    window = window_of(
        run(text, RunWindow(seconds=0.0, steps=15, mode=REPLAY_HOST), folder=tmp_path)
    )
    assert window.steps == 15


def test_a_loader_drawn_by_a_thread_does_not_disturb_the_clock(tmp_path: Path) -> None:
    text = program("""
        import queue, threading
        def ahead(loader):
            waiting = queue.Queue(2)
            def work():
                for batch in loader:
                    waiting.put(batch)
                waiting.put(None)
            threading.Thread(target=work, daemon=True).start()
            while (batch := waiting.get()) is not None:
                yield batch
        optimizer = torch.optim.AdamW(model.parameters())
        for epoch in range(100):
            for x, y in ahead(DataLoader(dataset, batch_size=20)):
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        """)
    reports = run(text, steps(30), Tell(), RunWindow(seconds=0.05, mode=DRAIN), folder=tmp_path)
    window = window_of(reports)
    assert window.steps == 30
    assert set(window.phases) == {"forward", "backward", "optimizer"}
    seen, drained = reports[-2:]
    assert isinstance(seen, Seen) and seen.loader and seen.loader.threaded
    assert isinstance(drained, Unsupported)  # two threads cannot draw from one iterator


def test_a_program_that_trains_in_a_thread_of_its_own_draws_its_batches_itself(
    tmp_path: Path,
) -> None:
    text = program("""
        import threading
        optimizer = torch.optim.AdamW(model.parameters())
        def train():
            for epoch in range(10):
                for x, y in DataLoader(dataset, batch_size=20):
                    optimizer.zero_grad()
                    criterion(model(x), y).backward()
                    optimizer.step()
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
        """)
    _, window, seen, *_ = run(text, steps(30), Tell(), steps(1000), folder=tmp_path)
    assert isinstance(window, Window) and "data" in window.phases
    assert isinstance(seen, Seen) and seen.loader and not seen.loader.threaded


@pytest.mark.parametrize("ending", ["raise SystemExit", "import sys; sys.exit(0)"])
def test_a_program_may_leave_as_it_likes(tmp_path: Path, ending: str) -> None:
    text = PLAIN.replace("range(50)", "range(1)") + f"\nif True:\n    {ending}\n"
    with pytest.raises(SystemExit):
        run(text, steps(100), folder=tmp_path)


def test_no_hook_is_left_on_a_model(tmp_path: Path) -> None:
    kept: list[nn.Module] = []
    reports = run(
        PLAIN.replace("range(50)", "range(1)"),
        steps(100),
        setup=Setup(model=[kept.append]),
        folder=tmp_path,
    )
    assert isinstance(reports[-1], Ended)
    assert "_compiled_call_impl" not in vars(kept[0])
    assert torch.is_tensor(kept[0](torch.zeros(1, 8)))


def test_a_model_that_is_given_objects_counts_them(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
class Graph:
    def __init__(self, index):
        self.nodes = inputs[index : index + 5]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, graphs):
        return torch.stack([self.layer(graph.nodes).mean(0) for graph in graphs])

model = Net()
graphs = [Graph(index) for index in range(100)]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(50):
    optimizer.zero_grad()
    model(graphs[step : step + 4]).sum().backward()
    optimizer.step()
"""
    )
    window = window_of(run(text, steps(5), steps(5), folder=tmp_path))
    assert (window.steps, window.samples) == (5, 20)


def test_short_epochs_are_drained_on_from_window_to_window(tmp_path: Path) -> None:
    text = PLAIN.replace("batch_size=32", "batch_size=20, num_workers=2")
    short = [RunWindow(seconds=0.0, mode=DRAIN)] * 25
    reports = run(text, steps(9), *short, steps(1), folder=tmp_path)
    drained = [each for each in reports if isinstance(each, Window) and each.mode == DRAIN]
    assert [window.steps for window in drained] == [1] * 25  # of three epochs of ten batches


EVALUATED_FIRST = """
        model.eval()
        with torch.no_grad(): model(x)
        model.train()
"""


@pytest.mark.parametrize("when", ["True", "step % 3 == 0"])
def test_a_batch_that_is_evaluated_before_it_is_trained_on_counts(
    when: str, tmp_path: Path
) -> None:
    looked = f"        step += 1\n        if {when}:\n" + textwrap.indent(EVALUATED_FIRST, "    ")
    text = PLAIN.replace("for epoch", "step = 0\nfor epoch", 1).replace(
        "        optimizer.zero_grad()\n", looked + "        optimizer.zero_grad()\n"
    )
    own = window_of(run(PLAIN, steps(20), folder=tmp_path))
    assert window_of(run(text, steps(20), folder=tmp_path)).samples == own.samples


@pytest.mark.parametrize(
    ("mode", "every", "share"),
    [("no_grad", 1, 0.9), ("enable_grad", 1, 0.9), ("no_grad", 10, 0.1), ("no_grad", 1000, 0.0)],
)
def test_how_many_steps_are_evaluated_is_seen(
    mode: str, every: int, share: float, tmp_path: Path
) -> None:
    evaluated = f"""
            if step % {every} == {every - 1}:
                model.eval()
                with torch.{mode}(): model(inputs[:9])
                model.train()
    """
    text = program(f"""
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(1000):
            optimizer.zero_grad()
            criterion(model(inputs), targets).backward()
            optimizer.step()
            {evaluated.strip()}
        """)
    seen = seen_of(run(text, steps(40), Tell(), folder=tmp_path))
    assert seen.evaluated_share == pytest.approx(share, abs=0.1)


def test_an_evaluation_before_the_first_step_is_no_drawing_ahead(tmp_path: Path) -> None:
    evaluated = """
        if step % 50 == 0:
            model.eval()
            with torch.no_grad():
                for a, b in DataLoader(dataset, batch_size=20): model(a)
            model.train()
        step += 1
"""
    text = PLAIN.replace("for epoch", "step = 0\nfor epoch", 1).replace(
        "        optimizer.zero_grad()\n", evaluated + "        optimizer.zero_grad()\n"
    )
    seen = observe(text, tmp_path)
    assert seen.loader is not None and seen.loader.ahead == 0 and seen.loader.batch_size == 32
    assert seen.samples_per_step == observe(PLAIN, tmp_path).samples_per_step


def test_an_evaluation_of_a_loader_that_the_same_line_has_built_is_no_drawing_ahead(
    tmp_path: Path,
) -> None:
    text = program("""
        def made(first, last):
            rows = TensorDataset(inputs[first:last].view(-1, 2, 4), targets[first:last])
            return DataLoader(rows, batch_size=20)
        training, validation = made(0, 140), made(140, 200)
        def evaluate():
            model.eval()
            with torch.no_grad():
                for x, y in validation: model(x.view(-1, 8))
            model.train()
        optimizer = torch.optim.AdamW(model.parameters())
        evaluate()
        for epoch in range(9):
            for x, y in training:
                optimizer.zero_grad()
                criterion(model(x.view(-1, 8)), y).backward()
                optimizer.step()
            evaluate()
        """)
    reports = run(text, steps(4), Tell(), folder=tmp_path)
    seen = seen_of(reports)
    assert seen.loader is not None and seen.loader.ahead == 0
    assert (window_of(reports).samples, seen.samples_per_step) == (80, 20)


def test_of_several_loaders_that_a_step_draws_from_the_longest_counts(tmp_path: Path) -> None:
    text = program(
        """
        import itertools
        long = DataLoader(dataset, batch_size=16, shuffle=True)
        short = DataLoader(TensorDataset(inputs[:60]), batch_size=20)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        for epoch in range(50):
            for (x, y), (z,) in zip(long, itertools.cycle(short)):
                optimizer.zero_grad()
                (criterion(model(x), y) + model(z).square().mean()).backward()
                optimizer.step()
        """
    )
    first, seen, later = run(text, steps(10), Tell(), steps(24), folder=tmp_path)[1:4]
    assert isinstance(first, Window) and isinstance(seen, Seen) and isinstance(later, Window)
    assert seen.loader is not None and seen.loader.batch_size == 16
    assert (first.samples, later.samples) == (10 * 16, 24 * 16 - 2 * 8)


def test_of_equally_long_loaders_that_a_step_draws_from_the_one_with_larger_batches_counts(
    tmp_path: Path,
) -> None:
    text = program(
        """
        large = DataLoader(TensorDataset(torch.zeros(60, 3, 16, 16), torch.zeros(60)), batch_size=6)
        small = DataLoader(TensorDataset(inputs[:40]), batch_size=4)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        for epoch in range(50):
            for (image, z), (x,) in zip(large, small):
                optimizer.zero_grad()
                (model(x).square().mean() + image.mean()).backward()
                optimizer.step()
        """
    )
    first, seen = run(text, steps(10), Tell(), folder=tmp_path)[1:3]
    assert isinstance(first, Window) and isinstance(seen, Seen)
    assert seen.loader is not None and (seen.loader.batch_size, seen.loader.beside) == (6, 1)
    assert seen.batch == ("float32[6, 3, 16, 16]", "float32[6]")
    assert first.samples == 10 * 6


def test_workers_of_a_loader_that_is_made_anew_end_with_it(tmp_path: Path) -> None:
    text = program(
        """
        import gc, multiprocessing
        gc.disable()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        lived = []
        for epoch in range(4):
            for x, y in DataLoader(dataset, batch_size=50, num_workers=1, persistent_workers=True):
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
                lived.append(len(multiprocessing.active_children()))
        with open("lived", "w") as file:
            print(max(lived), file=file)
        """
    )
    assert window_of(run(text, steps(15), folder=tmp_path)).samples == 15 * 50
    run(text, steps(99), folder=tmp_path)
    assert int((tmp_path / "lived").read_text()) <= 2  # an epoch's, and the next one's


@pytest.mark.parametrize("drawn", ["for x, y in loader:", "for x, y in tqdm(loader):"])
def test_gradients_that_no_backward_pass_made_train_on_what_was_drawn(
    drawn: str, tmp_path: Path
) -> None:
    """As with `torch.func`, for private training."""
    text = program(
        f"""
        from torch.func import functional_call, grad_and_value, vmap
        tqdm = iter
        model = nn.Linear(8, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        def loss_of(weights, x, y):
            return nn.functional.cross_entropy(functional_call(model, weights, (x[None],)), y[None])
        per_sample = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0))
        loader = DataLoader(TensorDataset(inputs, targets), batch_size=20)
        for epoch in range(99):
            {drawn}
                weights = {{name: each.detach() for name, each in model.named_parameters()}}
                found, _ = per_sample(weights, x, y)
                for name, each in model.named_parameters():
                    each.grad = found[name].mean(0)
                optimizer.step()
        """
    )
    reports = run(text, steps(10), Tell(), steps(20), folder=tmp_path)
    first, seen, later = reports[1:4]
    assert isinstance(first, Window) and isinstance(seen, Seen) and isinstance(later, Window)
    assert (first.samples, later.samples) == (10 * 20, 20 * 20)
    assert seen.loader is not None and seen.backwards_per_step == 0
    offered = by_name("precision").domain(builders.profile(seen=replace(seen, autocast="")))
    assert isinstance(offered, Skip) and "no backward pass" in offered.reason


def test_a_part_that_is_called_by_itself_too_is_not_taken_for_its_whole(tmp_path: Path) -> None:
    text = program(
        """
        coder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        whole = nn.Sequential(coder, nn.Linear(8, 2))
        optimizer = torch.optim.SGD(whole.parameters(), lr=1e-2)
        for step in range(200):
            loss = whole(inputs[:20]).square().mean() + coder(inputs[:20]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    )
    _, _, seen = run(text, steps(3), Tell(), folder=tmp_path)[:3]
    assert max(model.parameters for model in seen.models) == 8 * 8 + 8 + 8 * 2 + 2


def test_a_model_that_is_wrapped_anew_for_each_call_is_followed(tmp_path: Path) -> None:
    """As the solver of a neural differential equation does, which gives it a time first."""
    text = program(
        """
        class Field(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(8, 8)
            def forward(self, t, y):
                return self.net(y) * t
        class Solver(nn.Module):
            def __init__(self, field):
                super().__init__()
                self.field = field
            def forward(self, t, y):
                return y + self.field(t, y)
        def solve(field, y):
            return Solver(field)(torch.tensor(0.5), y)
        field = Field()
        optimizer = torch.optim.SGD(field.parameters(), lr=1e-2)
        for step in range(200):
            loss = solve(field, inputs[:20]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    )
    reports = run(text, steps(10), Tell(), steps(20), folder=tmp_path)
    first, seen, later = reports[1:4]
    assert isinstance(first, Window) and isinstance(seen, Seen) and isinstance(later, Window)
    assert (first.samples, later.samples) == (10 * 20, 20 * 20)
    assert [model.name for model in seen.models] == ["Field"]


def test_a_model_that_is_wrapped_for_good_is_not_taken_for_a_part_of_it(tmp_path: Path) -> None:
    """Here its first call, to see what it gives, is of the model itself."""
    text = program(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(8, 2)
            def forward(self, x):
                return self.net(x)
        class Whole(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
            def forward(self, x):
                return self.inner(x)
        net = Net()
        net(inputs[:2])
        whole = Whole(net)
        optimizer = torch.optim.SGD(whole.parameters(), lr=1e-2)
        for epoch in range(50):
            for x, y in DataLoader(dataset, batch_size=20):
                optimizer.zero_grad()
                criterion(whole(x), y).backward()
                optimizer.step()
        """
    )
    reports = run(text, steps(10), Tell(), steps(20), folder=tmp_path)
    seen = reports[2]
    assert isinstance(seen, Seen)
    assert "Whole" in [model.name for model in seen.models]


def test_a_dataset_with_modules_for_transforms_does_not_change(tmp_path: Path) -> None:
    """The first calls of a module are watched, in its class."""
    text = program(
        """
        class Scale(nn.Module):
            def forward(self, x):
                return 2 * x
        class Scaled(TensorDataset):
            def __init__(self, *tensors):
                super().__init__(*tensors)
                self.scale = Scale()
            def __getitem__(self, index):
                x, y = super().__getitem__(index)
                return self.scale(x), y
        scaled = Scaled(inputs, targets)
        loader = DataLoader(scaled, batch_size=50, num_workers=1, persistent_workers=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        for epoch in range(9):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        """
    )
    first, seen, _, later = run(text, steps(1), Tell(), steps(20), Tell(), folder=tmp_path)[1:5]
    assert isinstance(first, Window) and isinstance(seen, Seen) and isinstance(later, Seen)
    config: Config = {"persistent_workers": True}
    assert not unobserved(config, seen) and not unobserved(config, later)
    assert "no second epoch was begun while" in unconfirmed(config, seen)[0]
    assert not unconfirmed(config, later)


def test_a_stream_of_which_nobody_knows_the_length_is_drained_again(tmp_path: Path) -> None:
    text = program("""
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(dataset)
        optimizer = torch.optim.AdamW(model.parameters())
        for epoch in range(100):
            for x, y in DataLoader(Stream(), batch_size=20):
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        """)
    short = [RunWindow(seconds=0.0, mode=DRAIN)] * 25
    reports = run(text, steps(5), *short, folder=tmp_path)
    assert [window.steps for window in reports[2:] if isinstance(window, Window)] == [1] * 25


def test_a_model_is_exported_between_two_steps(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "for epoch",
        "def export():\n"
        "    size = torch.export.Dim('size', min=2, max=64)\n"
        "    torch.export.export(\n"
        "        model, (inputs[:4],), dynamic_shapes=({0: size},), strict=False)\n"
        "for epoch",
    ).replace(
        "        optimizer.step()\n", "        optimizer.step()\n        if epoch == 1: export()\n"
    )
    assert window_of(run(text, steps(9), folder=tmp_path)).steps == 9


@pytest.mark.parametrize(
    "given",
    [
        "itertools.islice(itertools.cycle(DataLoader(dataset, batch_size=32)), 100)",
        "list(DataLoader(dataset, batch_size=32)) * 9",
    ],
)
def test_batches_that_are_kept_count_each_time_that_they_are_trained_on(
    tmp_path: Path, given: str
) -> None:
    text = program(f"""
        import itertools
        optimizer = torch.optim.AdamW(model.parameters())
        for x, y in {given}:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        """)
    reports = run(text, steps(13), steps(21), Tell(), folder=tmp_path)
    assert window_of(reports).samples == 3 * 200


@pytest.mark.parametrize(
    "given", ["sentences", "itertools.islice(itertools.cycle(sentences), 100)"]
)
def test_a_batch_of_one_sentence_is_one_sample_of_several_rows(tmp_path: Path, given: str) -> None:
    text = program(f"""
        import itertools
        words = [(inputs[:3 + at % 5], targets[:3 + at % 5]) for at in range(12)]
        sentences = DataLoader(words, batch_size=1, collate_fn=lambda batch: batch[0])
        optimizer = torch.optim.AdamW(model.parameters())
        for epoch in range(4):
            for x, y in {given}:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        """)
    reports = run(text, steps(5), steps(21), Tell(), folder=tmp_path)
    assert window_of(reports).samples == 21
    assert seen_of(reports).samples_per_step == 1


def test_a_model_that_is_given_arrays_has_as_many_samples_as_these(tmp_path: Path) -> None:
    text = program("""
        import numpy as np

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(8, 3)

            def forward(self, x):
                return self.layer(torch.from_numpy(x))

        net = Net()
        optimizer = torch.optim.AdamW(net.parameters())
        for step in range(100):
            optimizer.zero_grad()
            net(np.ones((12, 8), np.float32)).square().mean().backward()
            optimizer.step()
        """)
    reports = run(text, steps(4), Tell(), folder=tmp_path)
    assert (window_of(reports).samples, seen_of(reports).samples_per_step) == (4 * 12, 12)


def test_batches_that_are_read_before_training_count_when_they_are_trained_on(
    tmp_path: Path,
) -> None:
    text = program("""
        batches = [(x, y) for x, y in DataLoader(dataset, batch_size=10)]
        optimizer = torch.optim.AdamW(model.parameters())
        for epoch in range(9):
            for x, y in batches:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        """)
    reports = run(text, steps(4), Tell(), steps(30), folder=tmp_path)
    assert [each.samples for each in reports if isinstance(each, Window)] == [4 * 10, 30 * 10]
    assert seen_of(reports).samples_per_step == 10


def test_a_dataset_that_the_program_has_let_go_of_is_gone(tmp_path: Path) -> None:
    text = program("""
        import weakref
        optimizer = torch.optim.AdamW(model.parameters())
        gone = []
        for shard in range(4):
            own = TensorDataset(inputs[shard * 50 :][:50], targets[shard * 50 :][:50])
            for x, y in DataLoader(own, batch_size=10):
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            known = weakref.ref(own)
            del own
            gone.append(known() is None)
        with open("gone", "w") as file:
            print(gone, file=file)
        """)
    run(text, steps(99), phases=False, folder=tmp_path)
    assert (tmp_path / "gone").read_text() == "[True, True, True, True]\n"


@pytest.mark.parametrize("profiled", [True, False])
def test_a_loader_that_is_gone_is_known_still(profiled: bool, tmp_path: Path) -> None:
    text = program("""
        batches = list(DataLoader(dataset, batch_size=10, drop_last=True))
        optimizer = torch.optim.AdamW(model.parameters())
        for x, y in batches * 9:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        """)
    loader = seen_of(run(text, steps(5), Tell(), phases=profiled, folder=tmp_path)).loader
    assert loader is not None and (loader.batch_size, loader.drop_last) == (10, True)


def test_kept_batches_whose_gradients_add_up_count_whole(tmp_path: Path) -> None:
    text = program("""
        import itertools
        optimizer = torch.optim.AdamW(model.parameters())
        for number, (x, y) in enumerate(itertools.cycle(DataLoader(dataset, batch_size=20))):
            criterion(model(x), y).backward()
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()
        """)
    assert window_of(run(text, steps(9), steps(10), folder=tmp_path)).samples == 10 * 40


@pytest.mark.parametrize("mode", [REPLAY_HOST, REPLAY_DEVICE])
def test_a_batch_that_the_program_changes_is_replayed_as_it_was_drawn(
    mode: str, tmp_path: Path
) -> None:
    text = program("""
        def collate(samples):
            x, y = torch.utils.data.default_collate(samples)
            return {"x": x, "label": y, "above": torch.ones(())}
        optimizer = torch.optim.AdamW(model.parameters())
        for epoch in range(100):
            for batch in DataLoader(dataset, batch_size=20, collate_fn=collate):
                label = batch.pop("label")
                batch["x"] *= 2
                assert batch["above"] == 1
                batch["above"] -= 1
                batch["x"] = batch["x"].requires_grad_()
                optimizer.zero_grad()
                loss = criterion(model(batch["x"]), label)
                loss.backward()
                optimizer.step()
                label -= label
        """)
    command = RunWindow(seconds=0.0, steps=15, mode=mode)
    assert window_of(run(text, command, folder=tmp_path)).steps == 15


def test_a_batch_that_stays_as_it_is_lies_where_it_lay() -> None:
    kept = Replayed({"x": [torch.ones(2)]})
    first, second = kept.next(), kept.next()
    assert first["x"] is not second["x"]
    assert first["x"][0].data_ptr() == second["x"][0].data_ptr()
    second["x"][0] += 1
    third, fourth = kept.next(), kept.next()
    assert third["x"][0].tolist() == fourth["x"][0].tolist() == [1, 1]
    assert third["x"][0].data_ptr() != fourth["x"][0].data_ptr()


def test_batches_that_a_resumed_run_passes_over_are_not_drawn_ahead(tmp_path: Path) -> None:
    text = PLAIN.replace("=32", "=20").replace(
        "for x, y in loader:\n",
        "for number, (x, y) in enumerate(loader):\n"
        "        if epoch == 0 and number < 5: continue\n",
    )
    reports = run(text, steps(2), Tell(), folder=tmp_path)
    assert window_of(reports).samples == 40
    seen = reports[-1]
    assert isinstance(seen, Seen) and seen.loader and seen.loader.ahead == 0
    assert seen.samples_per_step == 20


def test_workers_end_with_a_loop_that_is_left(tmp_path: Path) -> None:
    text = program("""
        import multiprocessing
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        loader = DataLoader(dataset, batch_size=20, num_workers=1)
        lived = []
        for epoch in range(3):
            for number, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
                if number == 3:
                    break
            lived.append(len(multiprocessing.active_children()))
        with open("lived", "w") as file:
            print(max(lived), file=file)
        """)
    drained = RunWindow(seconds=0.0, mode=DRAIN)
    run(text, steps(99), folder=tmp_path)
    assert int((tmp_path / "lived").read_text()) == 0
    reports = run(text, steps(4), drained, folder=tmp_path)
    assert window_of(reports).samples == 20


def test_kept_batches_of_a_compiled_step_count(tmp_path: Path) -> None:
    text = program("""
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        @torch.compile(backend="eager")
        def compute(x, y):
            return criterion(model(x), y)
        for x, y in list(DataLoader(dataset, batch_size=50)) * 9:
            optimizer.zero_grad()
            compute(x, y).backward()
            optimizer.step()
        """)
    assert window_of(run(text, steps(6), steps(10), folder=tmp_path)).samples == 10 * 50


@pytest.mark.parametrize("count", [1, 5])
def test_the_lines_of_loops_that_come_in_turns_are_all_known(count: int, tmp_path: Path) -> None:
    text = program(f"""
        import itertools
        other = nn.Linear(8, 2)
        optimizer = torch.optim.AdamW(model.parameters())
        others = torch.optim.AdamW(other.parameters())
        loader = DataLoader(dataset, batch_size=20)
        def train_model():
            for x, y in itertools.islice(loader, {count} + 3):
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        def train_other():
            for x, y in itertools.islice(loader, {count}):
                others.zero_grad()
                criterion(other(x), y).square().backward()
                others.step()
        for epoch in range(50):
            train_model()
            train_other()
        """)
    places = seen_of(run(text, steps(20), Tell(), folder=tmp_path)).places
    lines = [at for at, line in enumerate(text.splitlines(), 1) if "backward()" in line]
    assert [place.line for place in places.backwards] == lines
    assert places.backward is not None and places.backward.line == lines[0]


def test_the_lines_of_a_short_loop_before_are_none_of_the_trainings(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "for epoch in range(50):",
        """for x, y in DataLoader(dataset, batch_size=100):  # two steps
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
for epoch in range(50):""",
    )
    places = seen_of(run(text, steps(12), Tell(), folder=tmp_path)).places
    assert len(places.backwards) == 1
    assert places.backward is not None
    assert text.splitlines()[places.backward.line - 1].strip() == "loss.backward()"


SWALLOWING = (
    HEAD
    + """
import warnings
with warnings.catch_warnings(action="ignore"):  # it is deprecated
    model[0] = torch.jit.script(model[0])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for x, y in DataLoader(dataset, batch_size=4):
    try:
        criterion(model(x), y).backward()
        optimizer.step()
    except Exception:
        continue
"""
)


def test_a_part_of_a_model_may_be_scripted(tmp_path: Path) -> None:
    (model,) = observe(SWALLOWING, tmp_path).models
    assert model.compiled == "off"


def test_what_fails_in_us_is_not_swallowed_by_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr(intercept, "observe", fails)
    with pytest.raises(Fault) as fault:
        observe(SWALLOWING, tmp_path)
    assert isinstance(fault.value.__cause__, AttributeError)


def test_a_step_that_comes_to_have_more_passes_is_seen_to(tmp_path: Path) -> None:
    text = program("""
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        for epoch in range(50):
            for number, (x, y) in enumerate(DataLoader(dataset, batch_size=50)):
                optimizer.zero_grad()
                for _ in range(1 + epoch // 2):
                    criterion(model(x), y).backward()
                optimizer.step()
        """)
    passes = observe(text, tmp_path).passes
    assert [count for _, count in passes] == [1, 2]
    assert passes[1][0] == 2 * len(range(0, 200, 50))


STEP_FUNCTION = """
@torch.compile(backend="eager")
def fit(x, y):
    loss = criterion(model(x), y)
    loss.backward()
"""


def test_a_compiled_function_with_a_backward_pass_in_it_is_timed_as_it_is(tmp_path: Path) -> None:
    text = PLAIN.replace("for epoch", STEP_FUNCTION + "for epoch", 1).replace(
        "        loss = criterion(model(x), y)\n        loss.backward()\n", "        fit(x, y)\n"
    )
    assert text.count("fit(x, y)") == 2
    window = window_of(run(text, steps(9), steps(20), folder=tmp_path))
    own = window_of(run(PLAIN, steps(9), steps(20), folder=tmp_path))
    assert window.samples == own.samples
    assert window.losses == pytest.approx(own.losses, rel=1e-4)


@pytest.mark.parametrize(
    "batches", ["DataLoader(TensorDataset(inputs, targets), batch_size=16)", "zip(inputs, targets)"]
)
def test_a_pass_that_comes_at_the_end_of_an_epoch_is_seen_once_it_has(
    tmp_path: Path, batches: str
) -> None:
    text = program(
        f"""
        model = nn.Linear(8, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        for epoch in range(99):
            loss = 0.0
            for number, (x, y) in enumerate({batches}):
                if number >= 9:
                    loss = loss + nn.functional.cross_entropy(model(x), y)
                    if number == 12:
                        break
                    continue
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            loss.backward()
            optimizer.step()
        """
    )
    reports = run(text, steps(8), Tell(), steps(9), Tell(), folder=tmp_path)
    before, after = (each for each in reports if isinstance(each, Seen))
    assert (len(before.places.backwards), len(after.places.backwards)) == (1, 2)


@pytest.mark.parametrize("handed", ["coder, inputs", "pool=inputs, coder=coder"])
def test_a_model_that_a_loss_is_handed_and_calls_is_watched(tmp_path: Path, handed: str) -> None:
    text = program(
        f"""
        class Apart(nn.Module):
            def forward(self, batch, coder, pool):
                return (coder(batch) - coder(pool[: len(batch)])).square().mean()

        coder, apart = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), Apart()
        optimizer = torch.optim.SGD(coder.parameters(), lr=1e-2)
        for epoch in range(99):
            for x, y in DataLoader(TensorDataset(inputs, targets), batch_size=20):
                apart(x, {handed}).backward()
                optimizer.step()
                optimizer.zero_grad()
        """
    )
    reports = run(text, steps(10), Tell(), steps(20), folder=tmp_path)
    window, seen = window_of(reports), seen_of(reports)
    assert [model.name for model in seen.models] == ["Sequential"]
    assert window.samples == 20 * 20 and window.phases["forward"] > 0
