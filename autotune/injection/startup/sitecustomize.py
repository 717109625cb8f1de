"""Run by Python itself as it starts, in every process of a tuned program, whichever way it started.

Most of them (shells' children, compilers, launchers) have no use for the settings: nothing is
imported here, and nothing happens before torch is.
"""

import importlib.machinery
import importlib.util
import os
import sys
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class _AfterTorch:
    """Puts the settings in when torch has been imported.

    It stays until then: some libraries ask where torch is before they import it.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The spec that the other finders have for torch, its execution followed by ours."""
        if fullname != "torch":
            return None
        others = [each for each in sys.meta_path if each is not self]
        specs = (each.find_spec(fullname, path, target) for each in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                _inject()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _inject() -> None:
    try:
        from autotune.injection.inject import inject
    except ImportError as error:
        sys.stderr.write(
            f"autotune: a process of this program runs without the settings: {sys.executable} "
            f"cannot import autotune ({error})\n"
        )
    else:
        inject()


def _run_the_one_in_our_shadow() -> None:
    """Another `sitecustomize`, the system's or the user's, runs as it would have without us."""
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.meta_path.insert(0, _AfterTorch())
_run_the_one_in_our_shadow()
