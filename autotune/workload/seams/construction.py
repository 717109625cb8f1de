"""DataLoader as it is built: which one of the program's it is, and what the Setup builds it with.

Frameworks (Accelerate, Lightning) build a loader of their own from the one that they are given:
that is the program's loader still, built where the program has built it.
"""

import functools
import inspect
import weakref
from typing import Any

from torch.utils.data import DataLoader

from autotune.source.calls.anew import first_of
from autotune.source.edits import Place
from autotune.workload.inspect import describe_loader
from autotune.workload.live import Live
from autotune.workload.loading.built import BuiltLoader
from autotune.workload.places import calling_place, users_place
from autotune.workload.program.framework import is_installed
from autotune.workload.setup import loader_arguments

BUILT = "_autotune_built"
_UNKNOWN = Place(path="", line=0)
# Batch samplers inside one another that are looked at: a shard of a skipping one, as Accelerate
# makes them.
_WRAPPED = 3
# After so many, those that are gone are forgotten.
_SWEEP = 50


def install(live: Live) -> None:
    """Watch every DataLoader that is built, and build the training one as the Setup says."""
    original = DataLoader.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)  # libraries read in its signature what a loader is built with
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        place = _place_of(calling_place(building=self))
        built = None
        if is_installed(place.path):
            built = _rebuilt(live, place, signature.bind(self, *args, **kwargs).arguments)
        if built is None:
            built = _new(live, place, self)
        if live.setup.loader and is_meant(live, built):
            own = dict(signature.bind(self, *args, **kwargs).arguments)
            del own["self"]
            args, kwargs = (), loader_arguments(own, live.setup.loader)
        original(self, *args, **kwargs)
        built.loader = weakref.ref(self)
        if built.is_new:
            _add(live, built)
        setattr(self, BUILT, built)

    live.patch(DataLoader, "__init__", __init__)


def _place_of(place: Place | None) -> Place:
    """Where a loader is built, the same for one that is made anew by another line."""
    if place is None:
        return _UNKNOWN
    return place if is_installed(place.path) else first_of(place)


def _add(live: Live, built: BuiltLoader) -> None:
    """Remember it; of those that are gone, one of each kind says what was built at a place."""
    built.is_new = False
    live.built_at[built.place] += 1
    live.loaders.append(built)
    if len(live.loaders) % _SWEEP:
        return
    gone = {(each.place, each.trains): each for each in live.loaders if each.loader() is None}
    live.loaders = [
        each
        for each in live.loaders
        if each.loader() is not None
        or each is live.leading_loader
        or each is gone[each.place, each.trains]
    ]


def _new(live: Live, place: Place, loader: Any) -> BuiltLoader:
    within = _place_of(calling_place())
    return BuiltLoader(
        loader=weakref.ref(loader),
        place=place,
        class_place=within if within != place else None,
        caller=users_place() if is_installed(place.path) else None,
        ordinal=live.built_at[place],
        trains=_follows_training(live, place),
    )


def _rebuilt(live: Live, place: Place, arguments: dict[str, Any]) -> BuiltLoader | None:
    """The loader of the program's that a library makes another one from."""
    for built in reversed(live.loaders):
        known = built.loader()
        if known is not None and _is_made_from(known, built.place != place, arguments):
            built.written = built.written or describe_loader(known)
            return built
    return None


def _is_made_from(known: Any, elsewhere: bool, arguments: dict[str, Any]) -> bool:
    """Whether a loader of these `arguments` reads what `known` reads, in the same batches.

    Without its batch sampler, only one that is built `elsewhere` is: a line that builds two loaders
    for one dataset means two.
    """
    sampler = arguments.get("batch_sampler")
    for _ in range(_WRAPPED):
        if sampler is not None and sampler is known.batch_sampler:
            return True
        sampler = getattr(sampler, "batch_sampler", None)
    return (
        elsewhere
        and arguments.get("batch_sampler") is None
        and arguments["dataset"] is known.dataset
        and arguments.get("batch_size", 1) == known.batch_size
    )


def is_meant(live: Live, built: BuiltLoader) -> bool:
    """Whether it is the loader that the Setup is for."""
    key = live.training_loader
    return (
        key is not None
        and (built.place.path, built.place.line) == (key.path, key.line)
        and key.ordinal in (None, built.ordinal)
    )


def _follows_training(live: Live, place: Place) -> bool:
    """Whether a loader built there is the training loader, made anew for another epoch."""
    leading = live.leading_loader
    at_its_line = [built for built in live.loaders if built.place == place]
    is_there = leading is not None and leading.place == place
    return is_there and all(built.trains for built in at_its_line)
