"""DataLoader: which one trains, and how long the program waits for its batches."""

import math
import threading
import time
import weakref
from collections import deque
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from autotune.source.edits import Place
from autotune.workload import batches
from autotune.workload.ahead import CopiedAhead
from autotune.workload.inspect import CHANGING, TOLD, length_of, plain_state
from autotune.workload.kept import kept_to_read
from autotune.workload.live import DISCOVERY_STEPS, BuiltLoader, Live
from autotune.workload.seams import autocast, construction
from autotune.workload.seams.construction import BUILT

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
    (began, ended), now = live.clock.span("data"), live.clock.now

    def __iter__(self: Any) -> Any:
        built = getattr(self, BUILT, None)
        if built is None or not built.trains:
            iterator: Any = original(self)
        else:
            waits = not live.elsewhere and _waits(live)  # starting workers is a cost of training
            if waits:
                began(now())
            try:
                iterator = original(self)
            finally:
                if waits:
                    ended(now())
        if built is not None:
            _mark(live, iterator, self, built)
        vars(iterator).pop(_AHEAD, None)  # of the epoch before: persistent workers stay
        _note_epoch(self)
        return iterator

    live.patch(DataLoader, "__iter__", __iter__)


def _mark(live: Live, iterator: Any, loader: Any, built: BuiltLoader) -> None:
    """Have `iterator` know its loader. One whose workers persist keeps its iterator itself: they
    must not hold each other, or the workers would live until the garbage is collected, which may
    take torch five seconds for each.
    """
    setattr(iterator, BUILT, built)
    iterator._autotune_batch_size = loader.batch_size
    if loader._iterator is None:
        iterator._autotune_loader = lambda: loader
        return
    iterator._autotune_loader = weakref.ref(loader)
    for other in live.loaders:
        if other.place == built.place:
            other.kept = None
    built.kept = loader


def _note_epoch(loader: Any) -> None:
    """Notice whether the dataset is changed from one epoch to the next: told its number, drawn
    anew.

    Where workers read, nothing but the program changes what this process has of it: all that
    samples are made from is looked at, in the first epochs. Without workers reading may change it.
    """
    epochs, before = getattr(loader, TOLD, (0, None))
    thorough = loader.num_workers > 0
    if thorough and epochs >= _EPOCHS_LOOKED_AT:
        return
    try:
        told = kept_to_read(loader) if thorough else plain_state(loader.dataset)
    except Exception:  # noqa: BLE001 - an object of any library's, perhaps in another thread's hands
        return
    if before is not None and before != told:
        setattr(loader, CHANGING, True)
    setattr(loader, TOLD, (epochs + 1, told))


def loader_of(iterator: Any) -> Any:
    """The DataLoader that `iterator` is of; None where it is of none that is there any more."""
    known = getattr(iterator, "_autotune_loader", None)
    return known() if known is not None else None


def _install_next(live: Live) -> None:
    special = live.setup.micro_batches > 1 or live.setup.prefetch_to_device
    (began, ended), now = live.clock.span("data"), live.clock.now

    def __next__(self: Any) -> Any:
        if live.plain and self is live.training_iterator:
            began(now())
            try:
                batch = draw(self)
            finally:
                ended(now())
            live.fresh_samples += batches.count_samples(batch, self._autotune_batch_size)
            return batch
        built = getattr(self, BUILT, None)
        if built is None or live.elsewhere:
            return draw(self)
        if not built.trains and live.leader is not None and not live.discovering:
            return _strangers(live, built, self)
        if live.looked:  # what was drawn before was not to be trained on
            live.drawn.clear()
            live.fresh_samples, live.looked = 0, False
        waits = _waits(live)
        if waits:
            began(now())
        try:
            live.draw_began = None if self is live.training_iterator else time.perf_counter()
            given = live.kept_batches or special
            batch = _batch(live, built, self) if given else draw(self)
        finally:
            if waits:
                ended(now())
        live.drawn.append((built, self, batches.count_samples(batch, self._autotune_batch_size)))
        if live.discovering:
            live.batch = live.batches[built.place] = batch
        return batch

    live.patch(_BaseDataLoaderIter, "__next__", __next__)


def _strangers(live: Live, built: BuiltLoader, iterator: Any) -> Any:
    """A batch of a loader that has not trained so far: validation, unless a backward follows."""
    live.plain = False
    live.pace.leave_training()
    if threading.get_ident() == live.thread:
        autocast.close(live)
    batch = draw(iterator)
    samples = batches.count_samples(batch, iterator._autotune_batch_size)
    live.stranger = built, iterator, samples
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
    if built.place in live.kept_batches:
        return _replayed(live, built.place)
    if live.setup.micro_batches == 1:
        ahead = live.setup.prefetch_to_device and built.trains
        return _copied_ahead(live, iterator) if ahead else draw(iterator)
    # By place: `next(iter(loader))` has another iterator for every batch.
    parts = live.parts.setdefault(built.place, deque())
    if not parts:
        parts.extend(_parts(live, iterator))
    part, live.share = parts.popleft()
    live.group_open = bool(parts)
    return part


def _replayed(live: Live, place: Place) -> Any:
    """The batch that is kept, for ever, so that no epoch ends; but a loop that takes no step any
    more, since it counts on an epoch's length, is told that this one is over.
    """
    live.replayed += 1
    usual = live.backwards / max(1, live.pace.steps)
    if live.replayed > STUCK_BATCHES + STUCK_TIMES * usual:
        live.replayed = 0
        raise StopIteration
    return live.kept_batches[place]


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


def note_batch(live: Live) -> None:
    """What was drawn is trained on."""
    live.forward_begun = False
    if live.stranger is not None and not live.drawn and not live.drawn_in_thread:
        live.drawn.append(live.stranger)  # it trains after all
    live.stranger, live.looked = None, False
    if live.leading_loader is None and not live.drawn:
        # Without a module to call, a step counts as one sample.
        live.pace.pending_samples += live.forward_samples or int(not live.models.known())
        live.forward_samples = 0
    if live.drawn:
        note_training(live)
    live.pace.pending_samples += live.fresh_samples
    live.fresh_samples = 0


def note_training(live: Live) -> None:
    """A backward pass follows what was drawn: those loaders train, and one of them counts the
    samples.

    The first steps decide anew each time: a loader that was read once before training is no
    training loader.
    """
    if live.discovering and live.beginning:
        live.training_iterator = None  # the loader that was made for the last step alone is gone
        for known in live.loaders:
            known.trains = known.trains and known.loader() is None
        live.leading_loader = _longest(live.drawn)
        _note_ahead(live, live.leading_loader.place)
    if not live.fresh_samples and not any(_leads(live, built) for built, _, _ in live.drawn):
        live.leading_loader = _longest(live.drawn)  # the program has gone on to another one
        if live.leading_loader.place not in live.batches:
            live.discover_again()
    for built, iterator, samples in live.drawn:
        built.trains = True
        if _leads(live, built):
            live.training_iterator = iterator
            live.pace.pending_samples += samples
    live.drawn.clear()


def _longest(drawn: list[tuple[BuiltLoader, Any, int]]) -> BuiltLoader:
    """The loader with the longest epochs of those that a step draws from, the last of several.

    Shorter ones are gone through more than once, or kept by `itertools.cycle` and drawn from no
    more.
    """

    def length(each: tuple[BuiltLoader, Any, int]) -> float:
        count = length_of(loader_of(each[1]))
        return math.inf if count is None else count

    if len({id(built) for built, *_ in drawn}) == 1:
        return drawn[-1][0]
    longest: BuiltLoader = max(reversed(drawn), key=length)[0]
    return longest


def _leads(live: Live, built: BuiltLoader) -> bool:
    leading = live.leading_loader
    return leading is not None and (built is leading or built.place == leading.place)


def _note_ahead(live: Live, place: Place) -> None:
    """Notice whether batches are drawn before the step on the one before, as Accelerate does: the
    first training step draws more than the second.

    The loader at `place`, which leads in the second, does so for good. What led in the first may
    have been drawn for a validation, and was counted.
    """
    live.draws.append((place, [(built.place, samples) for built, _, samples in live.drawn]))
    if len(live.draws) == DISCOVERY_STEPS:
        counted = sum(_samples_of(*live.draws[0]))
        first, second = (_samples_of(place, drawn) for _, drawn in live.draws)
        live.ahead = max(0, len(first) - len(second))
        # Those drawn ahead are not trained on yet.
        live.pace.pending_samples += sum(first) - counted - live.ahead * second[-1]


def _samples_of(place: Place, drawn: list[tuple[Place, int]]) -> list[int]:
    return [samples for each, samples in drawn if each == place]
