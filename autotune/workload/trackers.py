"""Experiment trackers that a measured run keeps from their servers, and how often it asked them."""

import functools
from collections.abc import Callable
from typing import Any

from autotune.workload.seen import SeenTracker

_calls: dict[str, int] = {}


def note(name: str) -> None:
    """The program uses the tracker `name`, which is kept from its server."""
    _calls.setdefault(name, 0)


def noted(name: str, start: Callable[..., Any]) -> Callable[..., Any]:
    """`start`, which starts the tracker `name`."""

    @functools.wraps(start)
    def call(*arguments: Any, **named: Any) -> Any:
        note(name)
        return start(*arguments, **named)

    return call


def counted(name: str, log: Callable[..., Any]) -> Callable[..., Any]:
    """`log`, whose calls are told to the tracker `name`."""

    @functools.wraps(log)
    def call(*arguments: Any, **named: Any) -> Any:
        if name in _calls:
            _calls[name] += 1
        return log(*arguments, **named)

    call._autotune_counted = True  # type: ignore[attr-defined]
    return call


def trackers(steps: int) -> tuple[SeenTracker, ...]:
    """Those that were used in so many steps."""
    used = _calls.items()
    return tuple(SeenTracker(name=name, calls_per_step=count / steps) for name, count in used)
