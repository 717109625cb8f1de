"""What lies where results are to go and is not written over: what is none of autotune's, and by a
profile what a search has found.
"""

import re
from contextlib import suppress
from pathlib import Path

from autotune.errors import UsageError
from autotune.outputs.document import read_document

# How each begins that was written by autotune, as far as one does.
_BEGINNINGS = {
    "result.json": re.compile(r'\{\s*"schema": \d+,'),
    "report.html": re.compile(r'(?s).*<meta name="generator" content="autotune '),
    "tuned.toml": re.compile(r"# Tuned settings of [^\n]*\n# Found by autotune "),
    "study.journal": re.compile(r'\{"op_code":|$'),
}
_FIRST_CHARACTERS = 4000


def refuse_others(out: Path, program: str) -> None:
    """See that nothing in the folder `out` would be lost that autotune has not written itself.

    Args:
        out: the folder that results go to.
        program: the name that the tuned program would have there.

    Raises:
        UsageError: there is a file of someone else's with a name that is needed.
    """
    own = {name: _is_own(out / name, begins) for name, begins in _BEGINNINGS.items()}
    own |= dict.fromkeys(("tuned.patch", program), own["tuned.toml"])  # never without it
    for name, ours in own.items():
        if (out / name).exists() and not ours:
            raise UsageError(
                f"{out / name} is there already, and does not look like one of autotune's: it "
                "would be lost.",
                "Name another folder with --out.",
            )


def profile_folder(out: Path) -> Path:
    """Where a profile goes whose folder is `out`: beside what a search has found, not over it."""
    with suppress(UsageError):
        if read_document(out / "result.json").verdict is not None:
            return out / "profile"
    return out


def _is_own(file: Path, begins: re.Pattern[str]) -> bool:
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            return begins.match(text.read(_FIRST_CHARACTERS)) is not None
    except OSError:
        return False
