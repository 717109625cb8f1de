"""The user's program as text: what knobs ask of it, applied where a run was seen to do it."""

from autotune.source.diff import FilePatch, parse_patch, unified_patch
from autotune.source.recipe import imports_package, missing_from_recipe
from autotune.source.rewrite import Rewrite, by_hand, rewrite

__all__ = [
    "FilePatch",
    "Rewrite",
    "by_hand",
    "imports_package",
    "missing_from_recipe",
    "parse_patch",
    "rewrite",
    "unified_patch",
]
