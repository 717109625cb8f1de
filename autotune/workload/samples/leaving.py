"""What making a batch leaves behind, and which functions make it, in the process that trains."""

import dis
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch

from autotune.workload.samples.asked import is_users, is_users_class, variables
from autotune.workload.samples.delivery import SAMPLER, Left, LeftAttribute, LeftVariable
from autotune.workload.samples.digests import CONTAINERS
from autotune.workload.samples.kept import Piece
from autotune.workload.samples.of_loader import all_pieces

_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_NAME = re.compile(r"[^\W\d]\w*")


@contextmanager
def noted(functions: set[CodeType]) -> Iterator[None]:
    """Note the user's functions that this thread calls meanwhile."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        named = not code.co_name.startswith("<") or code.co_name == "<lambda>"
        if event == "call" and named and is_users(code.co_filename):
            functions.add(code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def left_behind(loader: Any, paths: Sequence[str], makers: set[CodeType]) -> Left:
    """What the rest of a program could read of `paths`, which making a batch by `makers` changes;
    as `kept_by` names them.
    """
    known = all_pieces(loader)
    pieces = [_whole(known[path]) for path in paths if path in known]
    collates = getattr(loader.collate_fn, "__self__", None)
    attributes = {_attribute(each, collates, makers) for each in pieces if "." in each.part}
    left = {_variable(each, makers) for each in pieces}
    return Left(
        makers=frozenset((code.co_filename, code.co_firstlineno) for code in makers),
        attributes=tuple(each for each in attributes if each),
        variables=tuple(each for each in left if each),
    )


def _whole(piece: Piece) -> Piece:
    """The attribute or the variable that `piece` is inside of."""
    while piece.part.startswith("[") and piece.above is not None:
        piece = piece.above
    return piece


def _attribute(piece: Piece, collates: object, makers: set[CodeType]) -> LeftAttribute | None:
    if isinstance(piece.owner, ModuleType):
        return None
    owner, _, name = piece.part.rpartition(".")
    chooses = piece.path.startswith(SAMPLER)
    if chooses and not _is_used_for_each(name, makers):
        return None
    kind = piece.owner if isinstance(piece.owner, type) else type(piece.owner)
    kinds = [each.__name__ for each in kind.__mro__ if each is kind or is_users_class(each)]
    return LeftAttribute(
        name=name,
        kinds=tuple(kinds),
        known_as=frozenset([owner] if owner else _words(piece.above)),
        collates=piece.owner is collates,
        chooses=chooses,
        steers=_steers(name, makers),
    )


def _steers(name: str, makers: set[CodeType]) -> bool:
    """Whether `makers` read the attribute more often than they set it: each `+= 1` does both."""
    uses = [each for code in makers for each in dis.get_instructions(code) if each.argval == name]
    read = sum(each.opname == "LOAD_ATTR" for each in uses)
    return read > sum(each.opname == "STORE_ATTR" for each in uses) > 0


def _is_used_for_each(name: str, makers: set[CodeType]) -> bool:
    """Whether `makers` use the attribute `name` for each batch, in a loop or in `__next__`; what is
    set as an epoch begins is the same however far ahead batches are chosen.
    """
    for code in makers:
        steps = list(dis.get_instructions(code))
        uses = [each.offset for each in steps if each.argval == name]
        back = [each for each in steps if each.opcode in _JUMPS and each.argval < each.offset]
        if uses and code.co_name == "__next__":
            return True
        if any(each.argval <= use < each.offset for each in back for use in uses):
            return True
    return False


def _words(piece: Piece | None) -> list[str]:
    """Which names the value of `piece` has: the attribute's, the variable's, its key's."""
    if piece is None:
        return []
    words = _NAME.findall(piece.part)[-1:]
    if words == [SAMPLER]:
        return [SAMPLER, f"batch_{SAMPLER}"]
    return words + _words(piece.above) if piece.part.startswith("[") else words


def _variable(piece: Piece, makers: set[CodeType]) -> LeftVariable | None:
    """Of a module, or of a function around those that make batches; None of what is neither."""
    name = piece.part.rpartition(".")[2]
    if isinstance(piece.owner, ModuleType):
        using, files, replaces = makers, {str(piece.owner.__file__)}, {"STORE_ATTR"}
    elif "." in piece.part or piece.above is None:
        return None
    else:
        using = {code for code in makers if name in variables(code)}
        files = {code.co_filename for code in using}
        replaces = {"STORE_GLOBAL", "STORE_DEREF"}
    replaced = any(
        each.argval == name and each.opname in replaces
        for code in using
        for each in dis.get_instructions(code)
    )
    filled, numpy = isinstance(piece.value, CONTAINERS), sys.modules.get("numpy")
    arrays = (torch.Tensor, *((numpy.ndarray,) if numpy else ()))
    if not (replaced or filled or isinstance(piece.value, arrays)):
        return None  # what draws random numbers draws others
    return LeftVariable(
        name=name,
        files=frozenset(files),
        enclosed=any(name in code.co_freevars for code in using),
        replaced=replaced,
        by_item=filled and not replaced,
    )
