"""Whose steps are counted: the optimizer that leads a training loop, and what comes after it."""

import threading
import weakref
from typing import Any

import torch

from autotune.workload.attributes import owner_of
from autotune.workload.live import Live

# So many steps of other optimizers in a row, and the leading one steps no more: a GAN takes five or
# so of one for each of the other.
OTHERS_IN_A_ROW = 20


def lead(live: Live, optimizer: torch.optim.Optimizer, *, closure: bool) -> None:
    """The first optimizer that steps sets the beat, or the first of a later loop."""
    place = getattr(optimizer, "_autotune_place", None)
    if live.leader is None:
        if place not in live.passed and len(live.passed) < live.passed_loops:
            live.passed.append(place)
        if place in live.passed:
            return
        live.leader, live.leader_place, live.closure = weakref.ref(optimizer), place, closure
        live.have_led.add(optimizer)
        if live.thread != threading.get_ident():
            live.thread, live.drawn_in_thread = threading.get_ident(), False
    if live.discovering:
        live.note_place("step")


def has_stepped(live: Live, optimizer: Any) -> bool:
    """Count a step of `optimizer`; whether what it trains is to be looked for."""
    if live.leader is None:
        live.pass_over()
        return False
    optimizer._autotune_stepped = True
    if live.leader() is not optimizer:
        return _other_stepped(live, optimizer)
    live.end_step()
    return False


def _other_stepped(live: Live, optimizer: torch.optim.Optimizer) -> bool:
    """An optimizer has stepped that is not the leading one: in turns with it, or after it.

    One that was built at the same place (for the next fold) leads from then on, and the modules
    that it trains are looked for; any other is of another loop, new or back for its turn.
    """
    live.others += 1
    place = getattr(optimizer, "_autotune_place", None)
    if not live.is_shared_place:
        if live.led_before is not None and live.led_before() is optimizer:
            live.is_shared_place = True  # it is there still: the place builds several
            return _hand_over(live, optimizer)
        built_at = getattr(optimizer, "_autotune_built_at", 0)
        if place == live.leader_place and built_at > live.led_from:
            return _hand_over(live, optimizer)
    long = live.pace.steps - live.led_from + live.led_uncounted >= OTHERS_IN_A_ROW
    if long and optimizer in live.have_led:  # the next of several in turn
        return _hand_over(live, optimizer)
    live.have_led.discard(optimizer)  # it steps beside the leading one
    if live.others < OTHERS_IN_A_ROW or live.taking_turns:
        return False
    if place != live.leader_place:
        live.taking_turns = place in live.passed
        if not live.taking_turns:
            live.pace.end_loop()
        return False
    return _hand_over(live, optimizer)


def _hand_over(live: Live, optimizer: torch.optim.Optimizer) -> bool:
    """`optimizer` leads from now on."""
    live.led_before, live.leader = live.leader, weakref.ref(optimizer)
    live.led_from, live.led_uncounted = live.pace.steps, live.others
    live.have_led.add(optimizer)
    live.restore = [hook for hook in live.restore if owner_of(hook[0]) is not None]
    if live.discovering or live.models.made_anew:
        live.end_step()
        return False
    live.discover_again()
    return True
