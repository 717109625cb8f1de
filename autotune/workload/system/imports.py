"""Modules that are changed right after the program has imported them."""

import sys
from collections.abc import Callable, Mapping
from typing import Any


class AfterImport:
    """A finder for `sys.meta_path`: what is done to a module by its full name."""

    def __init__(self, changes: Mapping[str, Callable[[Any], None]]) -> None:
        self._changes = changes

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The spec that the other finders have, its execution followed by the change."""
        if fullname not in self._changes:
            return None
        others = [each for each in sys.meta_path if each is not self]
        specs = (each.find_spec(fullname, path, target) for each in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute, change = spec.loader.exec_module, self._changes[fullname]

            def exec_module(module: Any) -> None:
                execute(module)
                change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
