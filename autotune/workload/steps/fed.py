"""What steps train on: from where it was drawn, and how much it is where nothing was drawn."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autotune.workload.inspect import describe_loader, described_again
from autotune.workload.loading.built import Source, nothing
from autotune.workload.seen import SeenLoader


@dataclass(slots=True, kw_only=True)
class Fed:
    """What the steps of a run were fed."""

    # That the last batch of the training loader came from, while the program has it: its workers
    # end with a loop that is left. And the loader that is its; None where it is gone.
    iterator: Callable[[], Any] = nothing
    loader: Callable[[], Any] = nothing
    # The loader stays when the program has let go of it, and with it its dataset, to be drained;
    # for runs that are not held against the program as it is.
    keeps: bool = False
    described: SeenLoader | None = None  # as it was gone through last, where it is not kept
    # Some step trained on what was drawn before: with another batch, or for an earlier epoch, and
    # kept (a list of batches, `itertools.cycle`).
    kept: bool = False
    # Loaders whose batches were drawn without gradients in the first steps.
    gradless: set[Source] = field(default_factory=set)
    drawing: bool = False  # by the thread that trains: modules called meanwhile are transforms
    own_threads: dict[str, int] = field(default_factory=dict)  # by the mode that has one instead
    # Samples that the first step, which is of no window, was counted too many for: those of batches
    # that were drawn before it and are trained on later, or never.
    miscounted: int = 0
    # Samples of the last backward passes of this step that an optimizer beside the leading one
    # stepped after, in a program without a loader: most likely the same batch again, for an actor
    # or a generator. They count where the leading one has no other pass.
    for_others: int = 0
    in_pieces: bool = False  # batches are trained a part at a time, with a step on each
    largest: list[Any] = field(default_factory=list)  # batches that are to be trained on
    _began: bool = False  # a step is complete
    _passes: int = 0  # backward passes of this step that had a batch drawn for them
    _usually: int = 1
    _latest: int = 0  # samples of the last batch
    _waiting: int = 0  # batches that were drawn with another, and counted then
    _beyond: int = 0  # samples of the last batch that the model was not given in the step it came

    def lead(self, iterator: Callable[[], Any], its_loader: Callable[[], Any]) -> None:
        """This has the training loader's iterator from now on, and that its loader."""
        if iterator is self.iterator:
            return
        before = self.loader()
        self.iterator, self.loader = iterator, its_loader
        loader = self.loader()
        if loader is None or self.keeps:
            return
        self.loader = weakref.ref(loader)
        if loader is before and self.described is not None:  # `next(iter(loader))` in each step
            self.described = described_again(self.described, loader)
        else:
            self.described = describe_loader(loader)

    def let_go(self) -> None:
        """The training loader is not needed any more."""
        self.iterator = self.loader = nothing
        self.described = None

    def draw(self, batches: list[int]) -> None:
        """Batches of so many samples were drawn for a backward pass."""
        if not batches:
            return
        self._passes += 1
        self._latest = batches[-1]
        if self._began:
            self._waiting += len(batches) - 1
        else:
            self.miscounted += sum(batches[:-1])

    def trained(self, drawn: int, given: int) -> int:
        """What to count for a step that so many samples were drawn for, and whose forward was given
        so many: those where batches are trained in pieces, which only the step after can show.
        """
        some = self._passes * given
        self._beyond = drawn - some if 0 < given < self._latest and some < drawn else 0
        return drawn - self._beyond if self.in_pieces else drawn

    def end_step(self) -> None:
        """A step is complete."""
        self._usually, self._passes = self._passes or self._usually, 0
        self._began = True
        self.for_others = 0

    def again(self, samples: int) -> int:
        """What to count for a step that draws nothing, each forward of which is given `samples`;
        0 where that is not known.
        """
        self.kept = True
        loader = self.described or self.loader()
        if getattr(loader, "batch_size", None) == 1:
            samples = 1  # whose rows are what a forward is given
        if self._waiting:
            self._waiting -= 1
            return 0
        if self._beyond and 0 < samples < self._latest and not self.in_pieces:
            self.in_pieces = True
            self.miscounted += self._beyond
        return self._usually * (samples or self._latest)
