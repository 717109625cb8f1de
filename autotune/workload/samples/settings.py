"""The settings that samples are made by: single numbers and texts, which a training may change."""

from collections.abc import Iterable
from typing import Any

from autotune.workload.samples.asked import is_users_class
from autotune.workload.samples.delivery import Setting
from autotune.workload.samples.digests import PLAIN
from autotune.workload.samples.kept import Piece, functions_of
from autotune.workload.samples.of_loader import pieces_to_read


def settings_of(loader: Any) -> tuple[Setting, ...]:
    """Those that a DataLoader makes batches by, each by its own name: attributes of objects and of
    classes, and items of dicts whose keys the functions that read them name.
    """
    pieces = list(pieces_to_read(loader).values())
    keys = _constants(pieces)
    found = (_setting(piece, keys) for piece in pieces if isinstance(piece.value, PLAIN))
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _setting(piece: Piece, keys: set[object]) -> Setting | None:
    if piece.part.startswith("["):
        key = piece.part[2:-2]
        of_dict = piece.above is not None and isinstance(piece.above.value, dict)
        return Setting(path=piece.path, name=key) if of_dict and key in keys else None
    owner, name = piece.owner, piece.part.rpartition(".")[2]
    if owner is None:
        return None
    kinds = (owner if isinstance(owner, type) else type(owner)).__mro__
    names = tuple(kind.__name__ for kind in kinds if is_users_class(kind))
    return Setting(path=piece.path, name=name, kinds=names) if names else None


def _constants(pieces: Iterable[Piece]) -> set[object]:
    """The texts in the functions that make samples."""
    functions = (each for piece in pieces for each in functions_of(piece.value))
    return {text for code, _ in functions for text in code.co_consts if isinstance(text, str)}
