"""The lines of the user's source that a call comes from, read off the stack."""

import os
import sys
from collections.abc import Iterator
from types import FrameType

import torch

from autotune.source.edits import Place
from autotune.workload.framework import is_installed

_STANDARD = os.path.dirname(os.__file__)  # the standard library
_NOT_THE_USERS = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)))


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _constructs(frame: FrameType, built: object) -> bool:
    """Whether it is `__init__`, or a wrapper that a framework has put round one."""
    code = frame.f_code
    return code.co_argcount > 0 and frame.f_locals.get(code.co_varnames[0]) is built


def calling_place(*, building: object = None) -> Place | None:
    """The innermost line on the stack that belongs neither to torch nor to autotune.

    With `building`, an object under construction, its classes' own lines are passed over as well.
    """
    for frame in _frames():
        path = frame.f_code.co_filename
        within = building is not None and _constructs(frame, building)
        if not (path.startswith((*_NOT_THE_USERS, "<frozen")) or within):
            return Place(
                path=os.path.abspath(path) if not path.startswith("<") else path,
                line=frame.f_lineno,
            )
    return None


def is_users(path: str) -> bool:
    """Whether a file is the program's own: no library's, nor made up."""
    return not (path.startswith((*_NOT_THE_USERS, _STANDARD, "<")) or is_installed(path))


def users_place() -> Place | None:
    """The innermost line on the stack that is no library's."""
    for frame in _frames():
        path = frame.f_code.co_filename
        if is_users(path):
            return Place(path=os.path.abspath(path), line=frame.f_lineno)
    return None
