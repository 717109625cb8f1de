"""Switches of the whole process that stay thrown whatever the program says as it starts."""

from collections.abc import Callable

from autotune.workload.setup import Setup


def switch_for_good(setup: Setup, switch: Callable[[], None]) -> None:
    """Throw `switch` before the program starts, and again before its first training step, when it
    has had its say.
    """
    setup.process.append(switch)
    setup.model.append(lambda _model: switch())
