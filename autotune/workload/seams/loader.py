"""DataLoader: which one trains, and how long the program waits for its batches."""

import functools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from autotune.workload.inspect import CHANGING, TOLD, length_of, plain_state
from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.loading.ahead import CopiedAhead
from autotune.workload.loading.built import BuiltLoader
from autotune.workload.samples.of_loader import kept_to_read
from autotune.workload.seams import autocast, construction, samples
from autotune.workload.seams.construction import BUILT
from autotune.workload.steps.replayed import Replayed, copied

_AHEAD = "_autotune_ahead"
_EPOCHS_LOOKED_AT = 4
# So many batches without a step, besides so many times as many as a step usually has.
STUCK_BATCHES, STUCK_TIMES = 8, 4
draw = _BaseDataLoaderIter.__next__  # torch's own


def install(live: Live) -> None:
    """Watch every DataLoader, and build the training one as the Setup says."""
    construction.install(live)
    _install_iter(live)
    _install_next(live)


def _install_iter(live: Live) -> None:
    original = DataLoader.__iter__
    timed = live.clock.timed("data")

    def __iter__(self: Any) -> Any:
        built = getattr(self, BUILT, None)
        trains = built is not None and built.trains
        # Starting workers is a cost of training.
        waits = trains and not live.elsewhere and _waits(live)
        if not live.elsewhere:
            _note_epoch(live, self, trains=trains, waits=waits)
        iterator: Any = timed(original, self) if waits else original(self)
        if built is not None:
            _mark(live, iterator, self, built)
        vars(iterator).pop(_AHEAD, None)  # of the epoch before: persistent workers stay
        return iterator

    live.patch(DataLoader, "__iter__", __iter__)


def _mark(live: Live, iterator: Any, loader: Any, built: BuiltLoader) -> None:
    """Have `iterator` know its loader. One whose workers persist keeps its iterator itself: they
    must not hold each other, or the workers would live until the garbage is collected, which may
    take torch five seconds for each.
    """
    setattr(iterator, BUILT, built)
    built.ended = False  # with workers that persist it is the iterator of before
    iterator._autotune_batch_size = loader.batch_size
    loader._autotune_begun = iterator._autotune_begun = getattr(loader, "_autotune_begun", 0) + 1
    training = live.fed.iterator()  # none where the program has left its epoch, or ended it
    if training is not None and loader_of(training) is loader:
        count = length_of(loader)
        if count is not None and training._num_yielded < count:
            live.plain = False  # the next draw is looked at
    if loader._iterator is None:
        iterator._autotune_loader = lambda: loader
        return
    iterator._autotune_loader = weakref.ref(loader)
    for other in live.loaders:
        if other.place == built.place:
            other.kept = None
    built.kept = loader


def _note_epoch(live: Live, loader: Any, *, trains: bool, waits: bool) -> None:
    """Notice, as an epoch begins, whether the dataset is changed from one to the next: told its
    number, drawn anew.

    Where workers read, nothing but the program changes what this process has of it: all that
    samples are made from is looked at, in the first epochs of a training loader, where the run is
    profiled or workers live on. That takes a while: no worker reads meanwhile, and it is none of a
    step's time. Without workers reading may change it.
    """
    epochs, before = getattr(loader, TOLD, (0, None))
    told = None
    if loader.num_workers == 0 or not (live.fed.keeps or loader.persistent_workers):
        told = _tried(plain_state, loader.dataset)
    elif epochs >= _EPOCHS_LOOKED_AT:
        return
    elif trains or not live.pace.steps:
        look = functools.partial(_tried, kept_to_read, loader)
        told = live.pace.aside(look) if waits else look()
    if before is not None and told is not None and before != told:
        setattr(loader, CHANGING, True)
    setattr(loader, TOLD, (epochs + 1, told))


def _tried(look: Callable[[Any], Any], at: Any) -> Any:
    try:
        return look(at)
    except Exception:  # noqa: BLE001 - an object of any library's, perhaps in another thread's hands
        return None


def loader_of(iterator: Any) -> Any:
    """The DataLoader that `iterator` is of; None where it is of none that is there any more."""
    known = getattr(iterator, "_autotune_loader", None)
    return known() if known is not None else None


def _install_next(live: Live) -> None:
    timed, noted = live.clock.timed("data"), _any_next(live)

    def __next__(self: Any) -> Any:
        if live.plain and self is live.fed.iterator():
            live.fed.drawing = True
            try:
                batch = timed(draw, self)
            except StopIteration:
                _end(self)
                raise
            finally:
                live.fed.drawing = False
            live.fresh_samples += batches.count_samples(batch, self._autotune_batch_size)
            return batch
        try:
            return noted(self)
        except StopIteration:
            _end(self)
            samples.forget_looked_at(live, self)
            raise

    live.patch(_BaseDataLoaderIter, "__next__", __next__)


def _end(iterator: Any) -> None:
    """It says that it is over."""
    built = getattr(iterator, BUILT, None)
    if built is not None and built.iterator() is iterator:
        built.ended = True


def _any_next(live: Live) -> Any:
    special = live.setup.micro_batches > 1 or live.setup.prefetch_to_device
    timed = live.clock.timed("data")

    def __next__(self: Any) -> Any:
        built = getattr(self, BUILT, None)
        if built is None or live.elsewhere:
            return draw(self)
        if self is not built.iterator():
            built.begin(self, live.loaders, live.built_at[built.place])
        if self._autotune_begun != getattr(loader_of(self), "_autotune_begun", 0):
            built.nested = True
        if samples.is_looked_at(live, built):
            return _strangers(live, built, self)
        if live.looked:  # what was drawn before was not to be trained on
            live.drawn.clear()
            live.fresh_samples, live.looked = 0, False
        given = live.kept_batches or special
        next_of = functools.partial(_batch, live, built) if given else draw
        waits = _waits(live)
        live.draw_began = None if self is live.fed.iterator() else time.perf_counter()
        if waits:
            live.fed.drawing = True
        try:
            batch = timed(next_of, self) if waits else next_of(self)
        finally:
            if waits:
                live.fed.drawing = False
        count = batches.count_samples(batch, self._autotune_batch_size)
        live.drawn.append((built, self._autotune_loader, count))
        if live.discovering:
            samples.keep(live, built, batch, self._autotune_batch_size)
        return batch

    return __next__


def _strangers(live: Live, built: BuiltLoader, iterator: Any) -> Any:
    """A batch that is looked at: validation, unless a backward follows."""
    live.plain = False
    live.pace.leave_training()
    waits = threading.get_ident() == live.thread
    if waits:
        autocast.close(live)
    live.fed.drawing = live.fed.drawing or waits
    try:
        batch = draw(iterator)
    finally:
        live.fed.drawing = live.fed.drawing and not waits
    count = batches.count_samples(batch, iterator._autotune_batch_size)
    live.stranger = built, iterator._autotune_loader, count
    return batch


def _waits(live: Live) -> bool:
    """Whether the training waits for what is drawn now; not where a thread draws ahead for it."""
    if threading.get_ident() != live.thread:
        live.drawn_in_thread = True
        return False
    autocast.close(live)  # the batch before had no backward pass
    if live.pace.away:
        live.pace.enter_training()
    return True


def _batch(live: Live, built: BuiltLoader, iterator: Any) -> Any:
    """The batch that is replayed, the next one, that which was copied ahead, or the next
    micro-batch where the Setup splits them.
    """
    if kept := _kept_of(live, built):
        return _replayed(live, kept)
    if beside := _kept_beside(live, built):
        batch = draw(iterator)
        live.kept_batches[built] = beside.of(copied(batch))
        return batch
    if live.setup.micro_batches == 1:
        ahead = live.setup.prefetch_to_device and built.trains
        return _copied_ahead(live, iterator) if ahead else draw(iterator)
    if live.training_loader is not None and not construction.is_meant(live, built):
        live.share = 1.0  # statistics, a look at the validation data before training
        return draw(iterator)
    # By source: `next(iter(loader))` has another iterator for every batch.
    parts = live.parts.setdefault(built.source, deque())
    if not parts:
        parts.extend(_parts(live, iterator))
    part, live.share = parts.popleft()
    live.group_open = bool(parts)
    return part


def _kept_of(live: Live, built: BuiltLoader) -> Replayed | None:
    """What is replayed of a loader: its own batch, or that of the one before it, which is gone, or
    which nobody but this run has any more.
    """
    if built in live.kept_batches:
        return live.kept_batches[built]
    before = (each for each in live.kept_batches if each.source == built.source)
    for each in before:
        if (loader := each.loader()) is None or loader is live.fed.loader():
            return live.kept_batches[each]
    return None


def _kept_beside(live: Live, built: BuiltLoader) -> Replayed | None:
    """What is replayed of another loader that the same line has built."""
    alike = (kept for each, kept in live.kept_batches.items() if each.place == built.place)
    return next(alike, None)


def _replayed(live: Live, kept: Replayed) -> Any:
    """The batch that is kept, for ever, so that no epoch ends; but a loop that takes no step any
    more, since it counts on an epoch's length, is told that this one is over.
    """
    live.replayed += 1
    usual = live.backwards / max(1, live.pace.steps)
    if live.replayed > STUCK_BATCHES + STUCK_TIMES * usual:
        live.replayed = 0
        raise StopIteration
    return kept.next()


def _copied_ahead(live: Live, iterator: Any) -> Any:
    """The next batch, on the device where the model is on one; the one after it is on its way."""
    device = live.device()
    if device.type != "cuda":
        return draw(iterator)
    ahead = vars(iterator).get(_AHEAD)
    if ahead is None:
        ahead = vars(iterator)[_AHEAD] = CopiedAhead(device)
    return ahead.next(lambda: draw(iterator))


def _parts(live: Live, iterator: Any) -> list[tuple[Any, float]]:
    """The next batch in micro-batches, each with its share of the samples."""
    count = live.setup.micro_batches
    if live.rehearsal is not None:
        return live.rehearsal.parts(lambda: draw(iterator), count)
    return batches.split(draw(iterator), count)
