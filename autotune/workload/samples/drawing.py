"""Drawing from the training loader beside the training, to see what it delivers."""

import functools
import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, IterableDataset

from autotune.source.refusals.settings import Setting
from autotune.workload.conversation import Draw, Unsupported
from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.places import calling_place, is_users
from autotune.workload.randomness.stillness import ordered, seed_order, still
from autotune.workload.samples.delivery import (
    FILE,
    INITIAL_SEED,
    NUM_THREADS,
    Delivery,
    Digests,
    changed,
)
from autotune.workload.samples.given_out import given_out
from autotune.workload.samples.going_on import goes_on_with, streams_of
from autotune.workload.samples.holdings import holdings, position, reopened
from autotune.workload.samples.leaving import left_behind, noted
from autotune.workload.samples.of_loader import kept_by_loader, numbers_to_read
from autotune.workload.samples.remembered import remembered
from autotune.workload.samples.settings import learning, set_by_makers, settings_of
from autotune.workload.seams.loader import draw
from autotune.workload.system.attributes import replaced

# So many batches are looked at again once the next one is there.
_HELD = 3


def deliver(live: Live, command: Draw) -> Delivery | Unsupported:
    """What the training loader delivers from the start of an epoch on.

    The program's own iteration goes on where it was; its random streams do not, and a dataset that
    remembers what it was asked for remembers this too: for runs that are not measured.
    """
    loader, iterator = live.fed.loader(), live.fed.iterator()
    if loader is None:
        return Unsupported(reason="no DataLoader gives the training its batches")
    if command.only_lengths:
        lengths = {} if loader.num_workers else remembered(loader.dataset)
        return Delivery(batches=(), ended=False, remembered=lengths)
    kept = kept_by_loader(loader)
    held = holdings(loader.dataset)
    files = {holding.path: file for holding, file in held if holding.kind == FILE}
    before = {path: position(file) for path, file in files.items()}
    makers: set[CodeType] = set()
    try:
        looking = noted(makers) if command.left else nullcontext()
        with looking, asked_of_torch() as asked, reopened(loader, held) as anew:
            drawn = _draw_all(loader, command) if command.batches else _Drawn()
    except Exception as error:  # noqa: BLE001 - the program's own; its loop must not catch it
        return Unsupported(reason=(str(error).strip() or type(error).__name__).splitlines()[-1])
    moved = [path for path, file in files.items() if position(file) != before[path]]
    return Delivery(
        batches=tuple(drawn.batches),
        ended=drawn.ended,
        holdings=tuple(holding for holding, _ in held if holding.path not in anew),
        moved=tuple(moved) if loader.num_workers else (),
        overwritten=drawn.overwritten,
        asked={} if loader.num_workers else asked,
        kept=kept,
        numbers=numbers_to_read(loader) if command.here else {},
        settings=(*settings_of(loader), *drawn.given_out) if command.settings else (),
        set_by_makers=set_by_makers(loader) if command.settings else (),
        learning=learning(loader) if command.settings else (),
        goes_on=goes_on_with(loader) if command.settings else {},
        streams=streams_of(loader) if command.settings else (),
        read=changed(kept, kept_by_loader(loader)) if command.batches else (),
        left=left_behind(loader, command.left, makers),
        position=(id(iterator), getattr(iterator, "_num_yielded", 0)),
        lasts=_lasts() if isinstance(loader.dataset, IterableDataset) else None,
    )


def _lasts() -> int | None:
    """The steps of the program's shortest scheduler that ends in an error."""
    found = (each for each in gc.get_objects() if issubclass(type(each), OneCycleLR))
    return min((each.total_steps for each in found), default=None)


@contextmanager
def asked_of_torch() -> Iterator[dict[str, str]]:
    """The first line of the program's that asks for each of these numbers, by its function: the
    seed that torch's random numbers began with, and how many threads it computes with, where these
    are several. Each is the same in all of a run, but for workers: they have a seed of their own in
    every epoch, and one thread.
    """
    found: dict[str, str] = {}
    places = [(torch, INITIAL_SEED), (torch.random, INITIAL_SEED)]
    places += [(torch, NUM_THREADS)] if torch.get_num_threads() > 1 else []
    with ExitStack() as stack:
        for module, name in places:
            noting = _noting(name, getattr(module, name), found)
            stack.enter_context(replaced(module, **{name: noting}))
        yield found


def _noting(name: str, own: Callable[[], int], found: dict[str, str]) -> Any:
    @functools.wraps(own)
    def asked() -> int:
        if (at := calling_place()) is not None and is_users(at.path):
            found.setdefault(name, f"{os.path.basename(at.path)}:{at.line}")
        return own()

    return asked


@dataclass(slots=True)
class _Drawn:
    """What drawing gave: digests of batches, whether the epoch was over then, whether one was
    written over by the next, and what the first holds that the dataset keeps.
    """

    batches: list[Digests] = field(default_factory=list)
    ended: bool = False
    overwritten: bool = False
    given_out: tuple[Setting, ...] = ()


def _draw_all(loader: "DataLoader[Any]", command: Draw) -> _Drawn:
    with ExitStack() as stack:
        stack.enter_context(ordered(loader, command.seed))
        seed_order(loader, command.seed)
        if command.reseed:  # torch draws its workers' from there, and `ordered` from elsewhere
            (loader.generator or torch.default_generator).manual_seed(command.seed + 1)
        if command.here:
            stack.enter_context(replaced(loader, num_workers=0, timeout=0))
        if command.still:
            stack.enter_context(still(loader, command.seed))
        return _draw_some(loader, command)


def _draw_some(loader: "DataLoader[Any]", command: Draw) -> _Drawn:
    iterator: Any = loader._get_iterator()  # iter() would start persistent workers' epoch anew
    iterator._in_order = True  # two runs can be compared only so, whatever the program has chosen
    drawn, last = _Drawn(), None
    ends = time.perf_counter() + command.seconds
    try:
        while len(drawn.batches) < command.batches and (
            not drawn.batches or time.perf_counter() < ends
        ):
            batch = draw(iterator)
            if 0 < len(drawn.batches) <= _HELD and not loader.num_workers:
                drawn.overwritten |= batches.digest(last) != drawn.batches[-1]
            drawn.batches.append(batches.digest(batch))
            if command.settings and not loader.num_workers and len(drawn.batches) == 1:
                drawn.given_out = given_out(batch)
            last = batch
    except StopIteration:
        drawn.ended = True
    finally:
        if loader.num_workers:
            iterator._shutdown_workers()
    return drawn
