"""The lines of the user's source that a call comes from, read off the stack."""

import ast
import builtins
import functools
import linecache
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, takewhile
from types import CodeType, FrameType

import torch

from autotune.source.edits import Place
from autotune.workload.program.framework import OURS, STANDARD, is_installed

_OF_TORCH = os.path.join(os.path.dirname(torch.__file__), "")  # and not torchvision's
_NOT_THE_USERS = (_OF_TORCH, OURS)


def frames() -> Iterator[FrameType]:
    """The calls that led to where this is asked, from the innermost out."""
    return outwards(sys._getframe(1))


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """`frame`, and the calls that led to it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _constructs(frame: FrameType, built: object) -> bool:
    """Whether it is `__init__`, or a wrapper that a framework has put round one.

    A program's own frames are not asked for their locals: before Python 3.13 that changes what its
    `locals()` has given, and keeps all of them alive.
    """
    code = frame.f_code
    methods = (vars(kind).get("__init__") for kind in type(built).__mro__)
    if any(getattr(method, "__code__", None) is code for method in methods):
        return True
    wraps = code.co_argcount > 0 and is_installed(code.co_filename)
    return wraps and frame.f_locals.get(code.co_varnames[0]) is built


def calling_place(*, building: object = None) -> Place | None:
    """The innermost line on the stack that belongs neither to torch nor to autotune.

    With `building`, an object under construction, its classes' own lines are passed over as well,
    and the column of the call that builds it is told too.
    """
    frame = _caller(building)
    if frame is None or building is None:
        return _place(frame) if frame else None
    first, _, column, _ = _positions(frame)
    return replace(_place(frame), column=column if first == frame.f_lineno else None)


def calling_expression() -> tuple[Place, str] | None:
    """`calling_place`, with what is called there as its source has it ("self.model")."""
    frame = _caller()
    callee = _callee(frame) if frame else ""
    # What torch calls, or C (`list(map(model, parts))`), is none of the caller's own calls.
    if not frame or not callee or callee in vars(builtins) or _by_torch():
        return None
    return _place(frame), callee


def _by_torch() -> bool:
    """Whether torch, but for a module's call, comes between the user's code and autotune's."""
    for frame in frames():
        path = frame.f_code.co_filename
        if path.startswith(_OF_TORCH) and path != torch.nn.modules.module.__file__:
            return True
        if not path.startswith(_NOT_THE_USERS):
            break
    return False


def _caller(building: object = None) -> FrameType | None:
    for frame in frames():
        if frame.f_code.co_filename.startswith((*_NOT_THE_USERS, "<frozen")):
            continue  # not to be asked for its locals: this very frame would hold itself by them
        if building is None or not _constructs(frame, building):
            return frame
    return None


def _place(frame: FrameType) -> Place:
    path = frame.f_code.co_filename
    file = path if path.startswith("<") else os.path.abspath(path)
    return Place(path=file, line=frame.f_lineno)


def _positions(frame: FrameType) -> tuple[int | None, int | None, int | None, int | None]:
    """First and last line, and first and last column, of what `frame` is at."""
    everywhere = frame.f_code.co_positions()
    return next(islice(everywhere, frame.f_lasti // 2, None), (None, None, None, None))


def _callee(frame: FrameType) -> str:
    """What the call on which `frame` waits is a call of; "" where its source does not show it."""
    code = frame.f_code
    first, last, begin, end = _positions(frame)
    if first is None or last is None or begin is None or end is None:
        return ""
    lines = [linecache.getline(code.co_filename, line).encode() for line in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    try:
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError):  # the file is another one by now
        return ""
    return ast.unparse(call.func) if isinstance(call, ast.Call) else ""


@functools.cache
def is_users(path: str) -> bool:
    """Whether a file is the program's own: no library's, nor made up."""
    others = not path or path.startswith((*_NOT_THE_USERS, STANDARD, "<")) or is_installed(path)
    return not others


def asking_place() -> Place | None:
    """The program's line that led here, by itself or by Python's library; None for another's."""
    for frame in frames():
        path = frame.f_code.co_filename
        standard = path.startswith(STANDARD) and not is_installed(path)
        if not (standard or path.startswith((OURS, "<frozen"))):
            return _place(frame) if is_users(path) else None
    return None


def users_place() -> Place | None:
    """The innermost line on the stack that is no library's."""
    frame = _users_frame()
    return _place(frame) if frame else None


def is_within(path: str) -> bool:
    """Whether a file of a library's that ends so is on the stack within the innermost line that is
    no library's.
    """
    inner = takewhile(lambda each: not is_users(each.f_code.co_filename), frames())
    return any(each.f_code.co_filename.endswith(path) for each in inner)


def users_code() -> CodeType | None:
    """The code of the innermost function on the stack that is no library's."""
    frame = _users_frame()
    return frame.f_code if frame else None


def _users_frame() -> FrameType | None:
    return next((each for each in frames() if is_users(each.f_code.co_filename)), None)
