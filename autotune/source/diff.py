"""A patch between two states of a source tree, as `git apply` and `patch -p1` take it."""

import difflib
import os
from collections.abc import Mapping
from pathlib import PurePath

from autotune.errors import PatchError

_NO_LINE_END = "\\ No newline at end of file\n"


def unified_patch(before: Mapping[str, str], after: Mapping[str, str], root: str) -> str:
    """The patch, to be applied in `root`, that makes `after` of `before`; "" where they are equal.

    Args:
        before: absolute path -> text with its own line ends.
        after: the same; a path that is only here becomes a new file.
        root: absolute path of the folder that the patch's paths start from.

    Raises:
        PatchError: a changed file lies outside `root`.
    """
    changed = [path for path in after if before.get(path) != after[path]]
    return "".join(_file_patch(path, before.get(path), after[path], root) for path in changed)


def _file_patch(path: str, old: str | None, new: str, root: str) -> str:
    name = PurePath(os.path.relpath(path, root)).as_posix()
    if name.startswith("../"):
        advice = "Give the folder that holds all changed files."
        raise PatchError(f"{path} lies outside {root}", advice)
    end = "\t" if " " in name else ""  # as git does, so that `patch` reads the whole name
    header = f"diff --git a/{name} b/{name}\n"
    if old is None:
        header += "new file mode 100644\n"
    source = "/dev/null" if old is None else f"a/{name}{end}"
    lines = difflib.unified_diff(_lines(old or ""), _lines(new), source, f"b/{name}{end}", n=3)
    return header + "".join(
        line if line.endswith("\n") else f"{line}\n{_NO_LINE_END}" for line in lines
    )


def _lines(text: str) -> list[str]:
    """The lines as a patch counts them: a carriage return is part of its line."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
