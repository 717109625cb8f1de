"""The options that a program is run with, as its parser of arguments gives them."""

import argparse
from typing import Any

from autotune.source.standing import PLAIN, OptionValue
from autotune.workload.live import Live
from autotune.workload.standing import Written

# What was parsed, and of which options only some values may be chosen: of another text it is asked
# whether the program has it itself, for it may be a password.
_parsed: list[tuple[argparse.Namespace, frozenset[str]]] = []


def install(live: Live) -> None:
    """Watch `argparse`, which click, Fire and the like go without."""
    _parsed.clear()
    original = argparse.ArgumentParser.parse_known_args

    def parse_known_args(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = original(self, *args, **kwargs)
        chosen = frozenset(action.dest for action in self._actions if action.choices)
        _parsed.append((given[0], chosen))
        return given

    live.patch(argparse.ArgumentParser, "parse_known_args", parse_known_args)


def options(written: Written) -> tuple[tuple[str, OptionValue], ...]:
    """Each option with the value that it has by now, but for those that have several, or a text
    that is none of its choices and is not `written` in the program's source.

    A program may change what was parsed, once it knows its device, and does so before it trains.
    """
    found: dict[str, OptionValue] = {}
    left_out = set[str]()
    for namespace, chosen in _parsed:
        for name, value in vars(namespace).items():
            text = isinstance(value, str) and (name in chosen or written.has(value))
            plain = text or isinstance(value, PLAIN)
            if not plain or found.setdefault(name, value) != value:
                left_out.add(name)
    return tuple(sorted((name, found[name]) for name in found.keys() - left_out))
