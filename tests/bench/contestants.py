"""The examples as the stopwatch and loadtune see them: how a run of each is read, and how someone
who uses loadtune would have to write it down for that, and would take its answer up.
"""

from dataclasses import dataclass

from tests.bench.stopwatch import Lines

RECIPE_LINE = r"epoch (?P<epoch>\d+)/\d+  step (?P<step>\d+) "


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A program of `examples/`.

    Attributes:
        name: of its file, without the ending.
        recipe: whether autotune writes its training program, which is then the original.
        arguments: of a whole run; the same work for every contestant.
        lines: how its output is read.
        workload: the file that loadtune is given, which puts the program into loadtune's terms.
        adoption: what is replaced in the original by what, so that it takes loadtune's answer up.
    """

    name: str
    recipe: bool = False
    arguments: tuple[str, ...]
    lines: Lines
    workload: str
    adoption: tuple[tuple[str, str], ...]

    @property
    def original(self) -> str:
        """The file that is timed as the program as it is."""
        return f"{self.name}_plain.py" if self.recipe else f"{self.name}.py"

    @property
    def tuned(self) -> str:
        """The file that is timed once autotune's patch is applied."""
        return f"{self.name}_tuned.py" if self.recipe else f"{self.name}.py"


_IMPORT = (
    "import torch\n",
    """import torch
from loadtune_apply import apply_global_configs, apply_model_configs, get_dataloader_kwargs
""",
)
_SETTINGS = ("def main()", "apply_global_configs()\n\n\ndef main()")

_OF_A_RECIPE = """\
import torch
from loadtune import Workload

import {name}_plain as program


def train_step(model, optimizer, batch, device):
    batch = program.to_device(batch, device)
    optimizer.zero_grad()
    loss = program.training_step(model, batch)
    loss.backward()
    optimizer.step()
    return loss


def get_workload():
    return Workload(
        name="{name}",
        make_dataset=program.build_dataset,
        make_model=program.build_model,
        make_optimizer={optimizer},
        train_step=train_step,
        default_batch_size=program.BATCH_SIZE,
    )
"""
_ADOPTION_OF_A_RECIPE = (
    _IMPORT,
    _SETTINGS,
    (
        "shuffle=not isinstance(dataset, IterableDataset),\n",
        "shuffle=not isinstance(dataset, IterableDataset),\n        **get_dataloader_kwargs(),\n",
    ),
    ("model = build_model().to(device)", "model = apply_model_configs(build_model().to(device))"),
)

_PHOTOS = """\
from pathlib import Path

import torch
from loadtune import Workload
from torch.nn import functional

from photos import PICTURES, Photos, ResNet


def train_step(model, optimizer, batch, device):
    images, labels = batch
    images, labels = images.to(device), labels.to(device)
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss


def get_workload():
    return Workload(
        name="photos",
        make_dataset=lambda: Photos(Path(__file__).parent / "data" / "photos"),
        make_model=lambda: ResNet(len(PICTURES)),
        make_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        train_step=train_step,
        default_batch_size=32,
    )
"""

# loadtune makes the DataLoader itself, and this program has none: its batches have to be rewritten
# as a dataset before there is anything that loadtune could turn.
_WINDOWS = """\
class Windows(torch.utils.data.Dataset):
    def __init__(self, text):
        self.text = text

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        start = torch.randint(len(self.text) - CONTEXT - 1, ()).item()
        row = self.text[start : start + CONTEXT + 1].long()
        return row[:-1], row[1:]


"""
_LANGUAGE_MODEL = f"""\
import torch
from loadtune import Workload
from torch.nn import functional

from language_model import CONTEXT, GPT, VOCABULARY, read_text


{_WINDOWS}
def train_step(model, optimizer, batch, device):
    tokens, targets = (part.to(device) for part in batch)
    logits = model(tokens)
    loss = functional.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def get_workload():
    return Workload(
        name="language_model",
        make_dataset=lambda: Windows(read_text()),
        make_model=GPT,
        make_optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3),
        train_step=train_step,
        default_batch_size=16,
    )
"""

EXAMPLES = (
    Example(
        name="photos",
        arguments=("--epochs", "3"),
        lines=Lines(
            pattern=r"epoch (?P<epoch>\d+): ", batch=32, epoch_samples=1500, warm_samples=1500
        ),
        workload=_PHOTOS,
        adoption=(
            _IMPORT,
            _SETTINGS,
            ("shuffle=True)", "shuffle=True, **get_dataloader_kwargs())"),
            (
                "ResNet(len(PICTURES)).to(device)",
                "apply_model_configs(ResNet(len(PICTURES)).to(device))",
            ),
        ),
    ),
    Example(
        name="tabular",
        recipe=True,
        arguments=("--epochs", "5"),
        lines=Lines(pattern=RECIPE_LINE, batch=16, epoch_samples=20_000, warm_samples=20_000),
        workload=_OF_A_RECIPE.format(
            name="tabular",
            optimizer="lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3)",
        ),
        adoption=_ADOPTION_OF_A_RECIPE,
    ),
    Example(
        name="remote_store",
        recipe=True,
        arguments=("--epochs", "2", "--log-every", "10"),
        lines=Lines(pattern=RECIPE_LINE, batch=32, epoch_samples=5007, warm_samples=5007),
        workload=_OF_A_RECIPE.format(name="remote_store", optimizer="program.build_optimizer"),
        adoption=_ADOPTION_OF_A_RECIPE,
    ),
    Example(
        name="language_model",
        arguments=("--steps", "120"),
        lines=Lines(pattern=r"step (?P<step>\d+): ", batch=16, warm_samples=320),
        workload=_LANGUAGE_MODEL,
        adoption=(
            _IMPORT,
            _SETTINGS,
            ("class Block(nn.Module):", f"{_WINDOWS}class Block(nn.Module):"),
            ("model = GPT().to(device)", "model = apply_model_configs(GPT().to(device))"),
            (
                "    started = time.perf_counter()\n",
                """\
    batches = iter(
        torch.utils.data.DataLoader(
            Windows(text), batch_size=args.batch_size, **get_dataloader_kwargs()
        )
    )
    started = time.perf_counter()
""",
            ),
            (
                "get_batch(text, args.batch_size, device)",
                "(part.to(device) for part in next(batches))",
            ),
        ),
    ),
)
