"""What may be said of the study that a search is: who decides what is tried next, and where it is
kept.
"""

import importlib.util
import re
from pathlib import Path

from autotune.errors import UsageError

PROFILE, GP = "profile", "gp"
SAMPLERS = (PROFILE, "tpe", GP, "random")
# The password in a database's address.
_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):[^@\s]*(?=@)")


def parse_sampler(name: str) -> str:
    """The name of a sampler that there is.

    Raises:
        UsageError: there is none of this name, or what it needs is not installed.
    """
    if name not in SAMPLERS:
        raise UsageError(f"there is no sampler called {name!r}", f"say {', '.join(SAMPLERS)}")
    if name == GP and importlib.util.find_spec("scipy") is None:
        raise UsageError("the sampler gp needs scipy", "pip install 'torch-autotune[gp]'")
    return name


def is_shared(storage: Path | str | None) -> bool:
    """Whether `storage` is the address of a database, which other searches may use too."""
    return isinstance(storage, str) and "://" in storage


def without_password(text: str) -> str:
    """`text` without the passwords of the addresses in it."""
    return _PASSWORD.sub(r"\1:***", text)
