"""Which training framework runs a program's loop, told by the files that it was seen in."""

import os
import re

import autotune
from autotune.source.edits import Place, Places

# The folder of autotune itself: by it its own code is told from a program's.
OURS = os.path.join(os.path.dirname(autotune.__file__), "")
STANDARD = os.path.join(os.path.dirname(os.__file__), "")  # the standard library

LIGHTNING, FABRIC = "Lightning", "Lightning Fabric"
TRANSFORMERS, ACCELERATE, IGNITE = "Hugging Face's Trainer", "Accelerate", "Ignite"

# The folders of their files. The first that is found counts: Hugging Face's Trainer trains through
# Accelerate, and Lightning's has Fabric's parts.
_FOLDERS = (
    ("transformers/", TRANSFORMERS),
    ("lightning/pytorch/", LIGHTNING),
    ("pytorch_lightning/", LIGHTNING),
    ("lightning/fabric/", FABRIC),
    ("lightning_fabric/", FABRIC),
    ("accelerate/", ACCELERATE),
    ("ignite/", IGNITE),
)
# Those whose loop is their own: they count the batches, and stop by that.
OWN_LOOPS = frozenset({LIGHTNING, TRANSFORMERS, IGNITE})
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/")


def framework_of(places: Places) -> str:
    """The framework in whose files the loop of `places` runs, "" for a loop of the program's."""
    loop = (places.loader, places.forward, places.backward, places.step, places.zero_grad)
    paths = {place.path for place in loop if isinstance(place, Place)}
    names = set(map(framework_at, paths))
    return next((name for _, name in _FOLDERS if name in names), "")


def framework_at(path: str) -> str:
    """The framework that a file is part of, "" for any other."""
    inner = short_path(path) if is_installed(path) else ""
    return next((name for folder, name in _FOLDERS if inner.startswith(folder)), "")


def is_installed(path: str) -> bool:
    """Whether a file is an installed library's."""
    return _INSTALLED.match(path) is not None


def short_path(path: str) -> str:
    """An installed library's file as its library has it ("timm/data/loader.py"); others' as is."""
    return _INSTALLED.sub("", path)
