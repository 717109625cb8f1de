"""Whose steps are counted: the optimizer that leads a training loop, and what comes after it."""

import math
import threading
import weakref
from typing import Any

import torch

from autotune.workload.live import Led, Live
from autotune.workload.parts.optimizer import weights_of

# An optimizer of so many times as many weights, or of so many times fewer, is of another training.
ANOTHER_SIZE = 1.1
# So many steps of other optimizers in a row, and the leading one steps no more: a GAN takes five or
# so of one for each of the other.
OTHERS_IN_A_ROW = 20


def lead(live: Live, optimizer: torch.optim.Optimizer, *, closure: bool) -> None:
    """The first optimizer that steps sets the beat, or the first of a later loop."""
    if live.leader is None:
        led = _training_of(optimizer)
        if not _has_passed(live, led) and len(live.passed) < live.passed_loops:
            live.passed.append(led)
        if _has_passed(live, led):
            return
        live.leader, live.led, live.closure = weakref.ref(optimizer), led, closure
        live.have_led.add(optimizer)
        # Within a backward pass of a GPU it is autograd's own thread.
        if live.thread != threading.get_ident() and not live.in_backward:
            live.thread, live.drawn_in_thread = threading.get_ident(), False
    if live.discovering:
        live.note_place("step")


def comes_next(live: Live, optimizer: torch.optim.Optimizer) -> bool:
    """Whether `optimizer`, which was just built, will most likely lead: at the same place as the
    leading one, it is for modules that were not seen before (of the next fold).
    """
    if live.leader is None or live.led is None or live.discovering or live.elsewhere:
        return False
    if live.models.made_anew or live.is_shared_place:
        return False
    return _is_same(_led_by(optimizer), live.led) and not _trains_what_is_known(live, optimizer)


def has_stepped(live: Live, optimizer: Any) -> bool:
    """Count a step of `optimizer`; whether what it trains is to be looked for."""
    if live.leader is None:
        live.pass_over()
        return False
    optimizer._autotune_stepped = True
    if live.leader() is not optimizer:
        looks = _other_stepped(live, optimizer)
        if live.leader() is not optimizer and live.leading_loader is None:
            live.fed.for_others = live.pace.pending_samples or live.fed.for_others
            live.pace.pending_samples = 0
        return looks
    live.pace.pending_samples = live.pace.pending_samples or live.fed.for_others
    live.end_step()
    return False


def _other_stepped(live: Live, optimizer: torch.optim.Optimizer) -> bool:
    """An optimizer has stepped that is not the leading one: in turns with it, or after it.

    One that was built at the same place (for the next fold) leads from then on, and the modules
    that it trains are looked for; any other is of another loop, new or back for its turn.
    """
    live.passes.other_stepped(optimizer, noted=live.discovering)
    live.plain = live.plain and not live.passes.looking
    if live.others_at[0] != live.backwards or live.others_at[1] == id(optimizer):
        live.others += 1
        live.others_at = live.backwards, id(optimizer)  # one of many that step after one pass
    if not live.is_shared_place:
        if live.led_before is not None and live.led_before() is optimizer:
            live.is_shared_place = True  # it is there still: the place builds several
            return _hand_over(live, optimizer)
        built_at = getattr(optimizer, "_autotune_built_at", 0)
        if built_at > live.led_from and _is_of_leading(live, optimizer):
            return _hand_over(live, optimizer)
    long = live.pace.steps - live.led_from + live.led_uncounted >= OTHERS_IN_A_ROW
    if long and optimizer in live.have_led:  # the next of several in turn
        return _hand_over(live, optimizer)
    live.have_led.discard(optimizer)  # it steps beside the leading one
    if live.others < OTHERS_IN_A_ROW or live.taking_turns:
        return False
    if _is_of_leading(live, optimizer):
        return _hand_over(live, optimizer)
    live.taking_turns = _has_passed(live, _training_of(optimizer))
    if not live.taking_turns and not live.setup.epoch_batches:  # a run to the program's end
        live.pace.end_loop()
    return False


def _hand_over(live: Live, optimizer: torch.optim.Optimizer) -> bool:
    """`optimizer` leads from now on."""
    live.led_before, live.leader = live.leader, weakref.ref(optimizer)
    live.led_from, live.led_uncounted = live.pace.steps, live.others
    live.have_led.add(optimizer)
    live.patches.forget_gone()
    if live.discovering or live.models.made_anew or _trains_what_is_known(live, optimizer):
        live.end_step()
        return False
    live.discover_again()
    return True


def _training_of(optimizer: Any) -> Led:
    known: Led | None = vars(optimizer).get("_autotune_led")
    if known is None:
        known = optimizer._autotune_led = _led_by(optimizer)
    return known


def _led_by(optimizer: Any) -> Led:
    size = sum(each.numel() for each in weights_of(optimizer) if each.requires_grad)
    place = getattr(optimizer, "_autotune_place", None)
    return Led(place=place, kind=type(optimizer), size=size)


def _is_same(one: Led, other: Led) -> bool:
    """Whether two optimizers are of one training: of folds, tasks, clients. Those of other sizes
    are not, as when layers are thawed; one that was copied or read from a file has no place.
    """
    apart = abs(math.log(max(1, one.size) / max(1, other.size)))
    unknown = one.kind is other.kind and (one.place is None or other.place is None)
    return (one.place == other.place or unknown) and apart < math.log(ANOTHER_SIZE)


def _is_of_leading(live: Live, optimizer: Any) -> bool:
    return live.led is not None and _is_same(_training_of(optimizer), live.led)


def _has_passed(live: Live, led: Led) -> bool:
    return any(_is_same(led, each) for each in live.passed)


def _trains_what_is_known(live: Live, optimizer: Any) -> bool:
    """Whether its weights are of models that were found before: only the optimizer is new."""
    known = {id(each) for model in live.models.trained for each in model.parameters()}
    return all(id(each) in known for each in weights_of(optimizer))


def _begin_alike(one: Any, other: Any) -> bool:
    """Whether two optimizers are the same, or train the same weights one after the other: one that
    is left is there until garbage is collected.
    """
    return next(weights_of(one), None) is next(weights_of(other), None)


def rate(live: Live) -> float:
    """The learning rate of the leading optimizer, over all its groups, and those of others beside
    it, but for those that trained its weights before it; nan where it has none, or has it on a GPU,
    which would have to be waited for.
    """
    leader = live.leader() if live.leader else None
    if leader is None:
        return math.nan
    if len(live.optimizers) == len(leader.param_groups) == 1:  # the usual case, and the hot one
        lr = leader.param_groups[0].get("lr")
        if type(lr) is float:
            return lr
    known = [] if live.models.made_anew else [each() for each in live.optimizers]
    beside = [each for each in known if each is not None and not _begin_alike(each, leader)]
    rates = [group.get("lr", math.nan) for each in (leader, *beside) for group in each.param_groups]
    if any(isinstance(each, torch.Tensor) and not each.is_cpu for each in rates):
        return math.nan
    try:
        return math.fsum(rates)
    except (TypeError, ValueError):
        return math.nan
