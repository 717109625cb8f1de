"""Failures of a contestant that may be others' doing: for what they hold."""

from autotune.measurement.measurement import Failure

_FOR_LACK = ("out_of_memory", "device_lost", "device_error")
_AT_ENTRY = (*_FOR_LACK, "crashed")  # a port or a file of theirs


class NotTogether(Exception):
    """One of them failed while others lived, or ran short of memory: what it wants may be what they
    hold.
    """


def may_be_anothers(failure: Failure, while_entering: bool) -> bool:
    """Whether it might not have come if no other contestant had been there."""
    return failure.kind in (_AT_ENTRY if while_entering else _FOR_LACK)
