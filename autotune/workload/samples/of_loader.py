"""What the samples of a DataLoader are made from and chosen by, as digests and by name."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from autotune.workload.samples.chosen import chosen_at_once
from autotune.workload.samples.delivery import SAMPLER
from autotune.workload.samples.kept import Piece, kept_by, pieces_of


def kept_by_loader(loader: Any) -> dict[str, int]:
    """`kept_by` of what a DataLoader gives samples from, and of what chooses them while an epoch
    runs.
    """
    return {p.path: digest for p, digest in _to_choose(loader)} | kept_to_read(loader)


def _to_choose(loader: Any) -> Iterator[tuple[Piece, int]]:
    without = (loader.dataset, *chosen_at_once(loader))
    return pieces_of(loader._index_sampler, SAMPLER, without)


def kept_to_read(loader: Any) -> dict[str, int]:
    """`kept_by` of what a DataLoader makes batches from: its dataset, and what collates them."""
    return kept_by(loader.collate_fn, "collate_fn") | kept_by(loader.dataset)


def pieces_to_read(loader: Any) -> dict[str, Piece]:
    """The pieces of what a DataLoader makes batches from, by path."""
    pieces = chain(pieces_of(loader.collate_fn, "collate_fn"), pieces_of(loader.dataset, "dataset"))
    return {piece.path: piece for piece, _ in pieces}


def all_pieces(loader: Any) -> dict[str, Piece]:
    """Those, and the pieces of what chooses samples while an epoch runs."""
    return {p.path: p for p, _ in _to_choose(loader)} | pieces_to_read(loader)


def numbers_to_read(loader: Any) -> dict[str, float]:
    """The numbers among them, by path."""
    return {
        path: piece.value
        for path, piece in pieces_to_read(loader).items()
        if isinstance(piece.value, (int, float)) and not isinstance(piece.value, bool)
    }
