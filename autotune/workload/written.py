"""Which texts a program has in its own source, and are no secrets."""

import functools
from collections.abc import Collection


class Written:
    """Texts of files, which are read where that is asked."""

    def __init__(self, files: Collection[str]) -> None:
        self._files = files

    def has(self, value: str) -> bool:
        """Whether one of them has `value`, in quotes."""
        return any(f"{mark}{value}{mark}" in text for text in self._texts for mark in "'\"")

    @functools.cached_property
    def _texts(self) -> list[str]:
        return [_text(file) for file in self._files if file.endswith(".py")]


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read()
    except OSError:
        return ""
