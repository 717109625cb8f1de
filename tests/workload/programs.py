"""Small training programs as people write them, and a way to run one under interception in this
process.
"""

import gc
import multiprocessing
import os
import sys
from pathlib import Path

import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from autotune.workload.conversation import Command, Halt, Halted, Report, RunWindow, Tell
from autotune.workload.intercept import intercepted
from autotune.workload.program.script import Program, run_script, seed_everything
from autotune.workload.seen import LoaderKey, Seen
from autotune.workload.setup import Setup
from autotune.workload.window import Window

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
generator = torch.Generator().manual_seed(0)
inputs = torch.randn(200, 8, generator=generator)
targets = (inputs[:, 0] > 0).long()
dataset = TensorDataset(inputs, targets)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
criterion = nn.CrossEntropyLoss()
"""

PLAIN = (
    HEAD
    + """
loader = DataLoader(dataset, batch_size=32, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(50):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
)


class Rehearsed:
    """A conversation held in advance: the commands are given, the reports kept."""

    def __init__(self, *commands: Command) -> None:
        self._commands = list(commands)
        self.reports: list[Report] = []

    def say(self, report: Report) -> None:
        self.reports.append(report)

    def ask(self) -> Command:
        return self._commands.pop(0) if self._commands else Halt()


def run(
    text: str,
    *commands: Command,
    setup: Setup | None = None,
    loader: LoaderKey | None = None,
    passed_loops: int = 0,
    phases: bool = True,
    folder: Path,
) -> list[Report]:
    """The reports of `text` run as a script under interception, until the commands are used up."""
    path = folder / "train.py"
    path.write_text(text)
    conversation = Rehearsed(*commands)
    before = (os.getcwd(), sys.argv, list(sys.path), sys.modules["__main__"], torch.get_rng_state())
    seed_everything(0)
    try:
        with intercepted(
            setup or Setup(),
            conversation,
            training_loader=loader,
            passed_loops=passed_loops,
            phases=phases,
        ) as live:
            run_script(Program(path=str(path), directory=str(folder)))
            live.pace.end()
    except Halted:
        pass
    finally:
        end_workers()
        os.chdir(before[0])
        sys.argv, sys.path[:], sys.modules["__main__"] = before[1], before[2], before[3]
        torch.set_rng_state(before[4])
    return conversation.reports


def end_workers() -> None:
    """End the workers of a program that was stopped in mid-epoch. Where its loader is collected as
    garbage with its queues, the word to end never reaches them, and torch waits five seconds.
    """
    if multiprocessing.active_children():
        for each in gc.get_objects():
            if type(each) is _MultiProcessingDataLoaderIter:
                each._shutdown_workers()


def steps(count: int) -> RunWindow:
    """The command for a window of just so many steps."""
    return RunWindow(seconds=0.0, steps=count)


def window_of(reports: list[Report]) -> Window:
    """The last window reported."""
    return next(report for report in reversed(reports) if isinstance(report, Window))


def seen_of(reports: list[Report]) -> Seen:
    """The last Seen reported."""
    return next(report for report in reversed(reports) if isinstance(report, Seen))


def observe(
    text: str, folder: Path, *, setup: Setup | None = None, loader: LoaderKey | None = None
) -> Seen:
    """What a run of `text` is seen to be made of after some steps."""
    return seen_of(run(text, steps(10), Tell(), setup=setup, loader=loader, folder=folder))


def losses(text: str, folder: Path, *, count: int = 20, setup: Setup | None = None) -> list[float]:
    """The losses of the first `count` steps, with `setup` applied to the training loader too."""
    key = observe(text, folder).training_loader() if setup is not None else None
    return list(
        window_of(run(text, steps(count - 1), setup=setup, loader=key, folder=folder)).losses
    )
