"""A loader that a library makes from the program's is the program's: built where it has built it,
with the batches that it has asked for.
"""

import os
from pathlib import Path

import pytest

from autotune.measurement.workbench import Workbench
from autotune.workload.program.target import load_target
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup
from tests.workload.programs import HEAD, observe, run, steps, window_of

# What Accelerate does (its DataLoaderShard), what Hugging Face's Trainer does before that (one line
# for every loader), and what Lightning does to DataLoader while it calls `train_dataloader()`.
LIBRARY = """
import functools
from contextlib import contextmanager
from torch.utils.data import DataLoader, IterableDataset

class Shard:
    def __init__(self, dataset, **options):
        self.base = DataLoader(dataset, **options)

    def __iter__(self):
        batches = iter(self.base)
        current = next(batches)
        for following in batches:
            yield current
            current = following
        yield current

class Again:
    def __init__(self, batch_sampler):
        self.batch_sampler = batch_sampler

    def __iter__(self):
        return iter(self.batch_sampler)

def prepare(loader):
    copied = {"num_workers": loader.num_workers, "collate_fn": loader.collate_fn}
    if isinstance(loader.dataset, IterableDataset):
        return Shard(loader.dataset, batch_size=loader.batch_size, **copied)
    return Shard(loader.dataset, batch_sampler=Again(loader.batch_sampler), **copied)

def build(dataset, batch_size):
    return DataLoader(dataset, batch_size=batch_size)

@contextmanager
def replaced():
    own = DataLoader.__init__

    @functools.wraps(own)
    def wrapper(obj, *args, **kwargs):
        own(obj, *args, **kwargs)

    DataLoader.__init__ = wrapper
    yield
    DataLoader.__init__ = own
"""
LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""


def program(folder: Path, loader: str) -> str:
    """A program that trains on `loader`, in a world in which the library is installed."""
    packages = folder / "site-packages"
    packages.mkdir(exist_ok=True)
    (packages / "rebuilding.py").write_text(LIBRARY)
    own = f"import sys; sys.path.insert(0, {str(packages)!r}); import rebuilding"
    return f"{own}{HEAD}{loader}{LOOP}"


def line_of(text: str, code: str) -> int:
    return 1 + next(at for at, line in enumerate(text.splitlines()) if code in line)


PREPARED = """
written = DataLoader(dataset, batch_size=25, shuffle=True, drop_last=True)
loader = rebuilding.prepare(written)
other = rebuilding.prepare(DataLoader(dataset, batch_size=50))
"""


def test_it_is_described_as_the_program_has_written_it(tmp_path: Path) -> None:
    text = program(tmp_path, PREPARED)
    seen = observe(text, tmp_path)

    assert seen.places.loader is not None and seen.loader is not None
    assert seen.places.loader.path == str(tmp_path / "train.py")
    assert seen.places.loader.line == line_of(text, "written =")
    assert (seen.loader.batch_size, seen.loader.shuffle, seen.loader.drop_last) == (25, True, True)
    assert not seen.loader.custom_batches and not seen.loader.shared_place


def test_a_batch_that_is_drawn_ahead_is_not_trained_on_yet(tmp_path: Path) -> None:
    seen = observe(program(tmp_path, PREPARED), tmp_path)

    assert seen.loader is not None and seen.loader.ahead == 1
    assert seen.samples_per_step == 25


def test_a_loop_that_takes_several_batches_a_step_is_not_ahead(tmp_path: Path) -> None:
    text = program(tmp_path, "\nloader = DataLoader(dataset, batch_size=20)\n")
    text = text.replace("for x, y in loader:", "pairs = iter(loader)\n    for x, y in pairs:")
    text = text.replace("optimizer.zero_grad()", "next(pairs); optimizer.zero_grad()")
    seen = observe(text, tmp_path)

    assert seen.loader is not None and seen.loader.ahead == 0
    assert seen.samples_per_step == 40


def test_it_is_built_with_the_settings_of_the_programs_own(tmp_path: Path) -> None:
    text = program(tmp_path, PREPARED)
    key = observe(text, tmp_path).training_loader()
    seen = observe(text, tmp_path, setup=Setup(loader={"num_workers": 1}), loader=key)

    assert seen.loader is not None and seen.loader.num_workers == 1


def test_it_has_the_batch_size_that_the_programs_own_was_given(tmp_path: Path) -> None:
    text = program(tmp_path, PREPARED)
    key = observe(text, tmp_path).training_loader()
    seen = observe(text, tmp_path, setup=Setup(loader={"batch_size": 40}), loader=key)

    assert seen.loader is not None and seen.loader.batch_size == 40
    assert seen.samples_per_step == 40 and seen.loader.drop_last


def test_a_stream_is_known_by_its_dataset(tmp_path: Path) -> None:
    text = program(
        tmp_path,
        """
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self): return iter(zip(inputs, targets))
written = DataLoader(Stream(), batch_size=25)
loader = rebuilding.prepare(written)
""",
    )
    seen = observe(text, tmp_path)

    assert seen.places.loader is not None and seen.loader is not None
    assert seen.places.loader.line == line_of(text, "written =")
    assert (seen.loader.batch_size, seen.loader.iterable) == (25, True)


def test_a_library_that_builds_two_loaders_for_one_dataset_means_two(tmp_path: Path) -> None:
    text = program(
        tmp_path,
        """
loader = rebuilding.prepare(rebuilding.build(dataset, 20))
validation = rebuilding.prepare(rebuilding.build(dataset, 20))
""",
    )
    seen = observe(text, tmp_path)

    assert seen.places.loader is not None and seen.places.loader_caller is not None
    assert seen.places.loader.path.endswith("site-packages/rebuilding.py")
    assert seen.places.loader.line == line_of(LIBRARY, "return DataLoader(dataset, batch_size")
    assert seen.places.loader_caller.line == line_of(text, "loader = rebuilding")
    assert seen.loader is not None and seen.loader.shared_place and seen.loader.ordinal == 0


def test_a_wrapped_constructor_is_not_where_a_loader_is_built(tmp_path: Path) -> None:
    text = program(
        tmp_path,
        """
with rebuilding.replaced():
    loader = DataLoader(dataset, batch_size=20)
""",
    )
    seen = observe(text, tmp_path)

    assert seen.places.loader is not None
    assert seen.places.loader.path == str(tmp_path / "train.py")
    assert seen.places.loader.line == line_of(text, "loader = DataLoader")


def seen_of_run(folder: Path, text: str) -> Seen:
    """What a run of `text` in a process of its own is seen to be made of."""
    path = folder / "train.py"
    path.write_text(text)
    with Workbench(load_target(path)) as bench:
        run = bench.observe()
        try:
            run.window(0.0, steps=6)
            return run.seen()
        finally:
            run.kill()


def test_accelerate_trains_on_the_programs_loader(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    text = (
        HEAD
        + """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
loader = accelerator.prepare(DataLoader(dataset, batch_size=20, shuffle=True))
"""
        + LOOP.replace("loss.backward()", "accelerator.backward(loss)")
    )
    seen = seen_of_run(tmp_path, text)

    assert seen.places.loader is not None and seen.loader is not None
    assert (seen.places.loader.path, seen.places.loader.line) == (
        str(tmp_path / "train.py"),
        line_of(text, "loader ="),
    )
    assert (seen.loader.batch_size, seen.loader.ahead, seen.samples_per_step) == (20, 1, 20)


def test_lightning_trains_on_the_loader_of_a_data_module(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    text = (
        HEAD
        + """
import lightning.pytorch as pl

class Data(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(dataset, batch_size=20, shuffle=True)

class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = model

    def training_step(self, batch, _):
        return criterion(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

pl.Trainer(max_epochs=5000, accelerator="cpu").fit(Lit(), datamodule=Data())
"""
    )
    seen = seen_of_run(tmp_path, text)

    assert seen.places.loader is not None and seen.loader is not None
    assert os.path.basename(seen.places.loader.path) == "train.py"
    assert seen.places.loader.line == line_of(text, "return DataLoader")
    assert (seen.loader.batch_size, seen.loader.ahead, seen.samples_per_step) == (20, 0, 20)


def test_what_a_loader_is_built_with_can_be_read_in_its_signature(tmp_path: Path) -> None:
    look = (
        "import inspect\nassert 'batch_size' in inspect.signature(DataLoader.__init__).parameters\n"
    )
    observe(HEAD + look + "loader = DataLoader(dataset, batch_size=20)\n" + LOOP, tmp_path)


def test_a_window_counts_as_many_batches_as_steps_where_they_are_drawn_ahead(
    tmp_path: Path,
) -> None:
    assert window_of(run(program(tmp_path, PREPARED), steps(5), folder=tmp_path)).samples == 5 * 25


ANEW = """
def forever():
    batches = DataLoader(dataset, batch_size=20)
    batches = iter(batches)
    while True:
        try:
            yield next(batches)
        except StopIteration:
            batches = DataLoader(
                dataset, batch_size=20
            )
            batches = iter(batches)
            yield next(batches)
loader = forever()
"""


def test_a_loader_that_another_line_makes_anew_has_the_same_settings(tmp_path: Path) -> None:
    text = f"{HEAD}{ANEW}{LOOP}"
    seen = observe(text, tmp_path)
    key = seen.training_loader()
    tried = observe(text, tmp_path, setup=Setup(loader={"batch_size": 40}), loader=key)

    assert seen.places.loader is not None
    assert seen.places.loader.line == line_of(text, "batches = DataLoader(dataset")
    assert tried.loader is not None and not tried.loader.shared_place
    assert (tried.loader.batch_size, tried.samples_per_step) == (40, 40)
