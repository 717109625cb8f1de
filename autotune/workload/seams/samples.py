"""What was drawn, once it is trained on, or looked at: which loader leads, and how many samples
count.
"""

import functools
import math
import threading
from collections.abc import Callable
from typing import Any

import torch

from autotune.workload.inspect import length_of
from autotune.workload.live import DISCOVERY_STEPS, Live
from autotune.workload.loading import batches
from autotune.workload.loading.built import BuiltLoader
from autotune.workload.seams.construction import BUILT
from autotune.workload.steps.replayed import copied

Drawn = tuple[BuiltLoader, Callable[[], Any], int]


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
        if not live.draws:
            live.drawn = _of_last_iterators(live.drawn)
        live.fed.let_go()  # the loader that was made for the last step alone is gone
        for known in live.loaders:
            known.trains = known.trains and known.loader() is None
        live.leading_loader = _longest(live, live.drawn)
        _note_ahead(live, live.leading_loader)
    if not live.fresh_samples and not any(_leads(live, built) for built, _, _ in live.drawn):
        live.leading_loader = _longest(live, live.drawn)  # the program has gone on to another one
        if all(place != live.leading_loader.place for place, _ in live.batches):
            live.passes.clear()
            live.places.pop("zero_grad", None)
            live.discover_again()
    leading = []
    for built, its_loader, samples in live.drawn:
        built.trains = True
        if _leads(live, built):
            live.fed.lead(built.iterator, its_loader)
            leading.append(samples)
    live.pace.pending_samples += sum(leading)
    live.fed.draw(leading)
    live.drawn.clear()


def is_looked_at(live: Live, built: BuiltLoader) -> bool:
    """Whether what a loader gives now is not trained on, unless a backward pass follows: it has not
    trained so far, or is drawn from without gradients, which in the first steps it was not.
    """
    if live.leader is None or live.discovering:
        return False
    gradless = not torch.is_grad_enabled() and threading.get_ident() == live.thread
    return not built.trains or (gradless and built.source not in live.fed.gradless)


def keep(live: Live, built: BuiltLoader, batch: Any, batch_size: int | None) -> None:
    """Keep a batch of the first steps, and whether gradients were off; once a step is complete, no
    smaller one in the place of another, as the last of an epoch is.
    """
    note = live.fed.gradless.discard if torch.is_grad_enabled() else live.fed.gradless.add
    note(built.source)
    known, kept = live.batches.get(built.source, (None, None))
    if live.draws and known is built:
        count = functools.partial(batches.count_samples, batch_size=batch_size)
        if count(batch) < count(kept):
            return
    live.batch = copied(batch)
    live.batches[built.source] = built, live.batch


def forget_dropped(live: Live, given: Any) -> None:
    """Where the first call of a model is given the batch that was drawn last, those before it were
    not drawn ahead: a run that is resumed in the middle of an epoch passes over them.
    """
    if live.draws or len(live.drawn) < 2 or not live.beginning:
        return
    last = live.drawn[-1]
    _, newest_batch = live.batches.get(last[0].source, (None, None))
    newest = batches.tensors(newest_batch)
    if any(_is_same(one, other) for one in newest for other in batches.tensors(given)):
        live.drawn = [each for each in live.drawn if each[0].source != last[0].source] + [last]


def forget_looked_at(live: Live, iterator: Any) -> None:
    """Where `iterator` is over before anything has trained, and gradients are off, it was gone
    through to validate: what it gave is no batch of the first step, which may draw from a queue of
    the program's own.
    """
    built = getattr(iterator, BUILT, None)
    if live.draws or not live.beginning or torch.is_grad_enabled() or live.drawn_in_thread:
        return
    if built is not None and not live.elsewhere:
        live.drawn = [each for each in live.drawn if each[0] is not built]
        live.batches.pop(built.source, None)
        live.batch = next((batch for _, batch in reversed(live.batches.values())), None)


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype or one.layout != other.layout:
        return False
    return one.layout == torch.strided and torch.equal(one.cpu(), other.cpu())


def _of_last_iterators(drawn: list[Drawn]) -> list[Drawn]:
    """What was drawn last of each loader: one may be gone through before, for its statistics."""
    last = {id(built): its_loader for built, its_loader, _ in drawn}
    return [each for each in drawn if each[1] is last[id(each[0])]]


def _longest(live: Live, drawn: list[Drawn]) -> BuiltLoader:
    """The loader with the longest epochs of those that a step draws from; of several the one of
    which most samples were drawn, or whose batch is the largest as far as that was kept: it most
    likely takes longest to make. Or the last.

    Shorter ones are gone through more than once, or kept by `itertools.cycle` and drawn from no
    more.
    """

    def size(each: Drawn) -> tuple[float, int, int]:
        built, its_loader, samples = each
        count = length_of(its_loader())
        _, batch = live.batches.get(built.source, (None, None))
        return math.inf if count is None else count, samples, batches.count_bytes(batch)

    if len({id(built) for built, *_ in drawn}) == 1:
        return drawn[-1][0]
    longest: BuiltLoader = max(reversed(drawn), key=size)[0]
    return longest


def training_batch(live: Live) -> Any:
    """One batch as it was drawn of the loader that leads; without one, the last that was kept."""
    leading = live.leading_loader
    kept = None if leading is None else live.batches.get(leading.source)
    return live.batch if kept is None else kept[1]


def _leads(live: Live, built: BuiltLoader) -> bool:
    leading = live.leading_loader
    return leading is not None and (built is leading or built.source == leading.source)


def _note_ahead(live: Live, leading: BuiltLoader) -> None:
    """Notice whether batches are drawn before the step on the one before, as Accelerate does: the
    first training step draws more than the second.

    The loader that leads in the second does so for good. What led in the first may have been drawn
    for a validation, and was counted.
    """
    live.draws.append((leading, [(built, samples) for built, _, samples in live.drawn]))
    if len(live.draws) == DISCOVERY_STEPS:
        counted = sum(_samples_at(*live.draws[0]))
        first, second = (_samples_of(leading, drawn) for _, drawn in live.draws)
        live.ahead = max(0, len(first) - len(second))
        # Those drawn ahead are not trained on yet.
        live.fed.miscounted = counted + live.ahead * second[-1] - sum(first)


def _samples_of(leading: BuiltLoader, drawn: list[tuple[BuiltLoader, int]]) -> list[int]:
    """Of each batch that was drawn from it; or, where it is made anew for each step, from those."""
    own = [samples for built, samples in drawn if built is leading]
    return own or _samples_at(leading, drawn)


def _samples_at(leading: BuiltLoader, drawn: list[tuple[BuiltLoader, int]]) -> list[int]:
    return [samples for built, samples in drawn if built.source == leading.source]
