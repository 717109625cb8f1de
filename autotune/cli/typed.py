"""The command that was typed, and the next one to type: to be copied as it stands."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

_NAME = "autotune"
_FRESH = "--fresh"


def typed(*words: str, whole: bool = False) -> str:
    """A command of autotune with these words, called as this one was; by its `whole` path where it
    is to be typed in another folder.
    """
    return f"{_called(whole=whole)} {shlex.join(words)}"


def retyped(
    command: Sequence[str],
    *,
    as_command: str = "",
    budget: str = "",
    allow: str = "",
    off: str = "",
) -> str:
    """A command of before once more, every flag and argument kept but what is given here, and
    `--fresh`: it is to go on.

    Args:
        command: as in `sys.argv`.
        as_command: the command instead of its own ("search").
        budget: the budget instead of its own.
        allow: what may change, instead of its own.
        off: a knob that is left alone.
    """
    words = list(command[1:])
    own = words.index("--") if "--" in words else len(words)
    flags = [word for word in words[:own] if word != _FRESH]
    arguments = words[own:] if words[own + 1 :] else []
    if as_command:
        place = next((at for at, word in enumerate(flags) if not word.startswith("-")), len(flags))
        flags[place : place + 1] = [as_command]
    if budget:
        flags = [*_without(flags, "--budget"), "--budget", budget]
    if allow:
        flags = [*_without(flags, "--allow"), "--allow", allow]
    if off:
        flags = [*_without(flags, "--knob", f"{off}="), "--knob", f"{off}=off"]
    return typed(*flags, *arguments)


def shown_path(path: Path) -> str:
    """`path` from here, where that is the shorter way to say it."""
    near = os.path.relpath(path)
    return near if not near.startswith("..") else str(path)


def _without(flags: Sequence[str], name: str, value: str = "") -> list[str]:
    """`flags` without those called `name` whose value begins with `value`."""
    kept: list[str] = []
    words = iter(flags)
    for word in words:
        if word == name:
            own = next(words, "")
            kept += [] if own.startswith(value) else [word, own]
        elif not word.startswith(f"{name}={value}"):
            kept.append(word)
    return kept


def _called(*, whole: bool = False) -> str:
    """What the shell calls this program by: where it is not on the path, by its own."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py" and program.parent.name == _NAME:
        return f"{_by_name('python', sys.executable, whole=whole)} -m {_NAME}"
    return _by_name(_NAME, sys.argv[0], whole=whole) if program.name == _NAME else _NAME


def _by_name(name: str, path: str, *, whole: bool) -> str:
    found = shutil.which(name)
    if os.sep not in path or (found and os.path.abspath(found) == os.path.abspath(path)):
        return name
    return shlex.quote(os.path.abspath(path) if whole else shown_path(Path(path)))
