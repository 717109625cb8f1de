"""Which process makes a trial, and whether that can be seen to be over from here."""

import os
from pathlib import Path

_ENDED = ("Z", "X")
_STATE, _STARTED = 0, 19  # of what follows the name in /proc/PID/stat (proc(5))


def this_process() -> str:
    """This process, as others may look for it: the running system and its own view of processes (a
    container has another), its number, and the tick at which it was started.
    """
    return f"{_place()} {os.getpid()} {_facts(os.getpid())[_STARTED]}" if _place() else ""


def is_over(process: str) -> bool:
    """Whether a process that called itself so has ended; False where that is not seen from here."""
    place, _, rest = process.partition(" ")
    number, _, started = rest.partition(" ")
    if not place or place != _place():
        return False
    try:
        os.kill(int(number), 0)  # /proc may hide other users' processes
        facts = _facts(int(number))
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False
    return facts[_STARTED] != started or facts[_STATE] in _ENDED


def _facts(number: int) -> list[str]:
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()


def _place() -> str:
    """The running system and the processes that it shows; "" where it does not say."""
    try:
        system = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{system}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""
