"""A run as it goes: what was seen of it, what its Setup changes, and the patches for both."""

import os
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from autotune.source.edits import Place
from autotune.workload.loading.built import BuiltLoader, Source
from autotune.workload.loading.copied import Copied
from autotune.workload.parts.averages import Average
from autotune.workload.parts.models import Models
from autotune.workload.parts.optimizer import weights_of
from autotune.workload.parts.outputs import Outputs
from autotune.workload.places import calling_place
from autotune.workload.seen import LoaderKey
from autotune.workload.setup import Setup
from autotune.workload.steps.beat import Beat
from autotune.workload.steps.clock import Clock
from autotune.workload.steps.fed import Fed
from autotune.workload.steps.passes import Passes
from autotune.workload.steps.replayed import Replayed
from autotune.workload.system.attributes import Patches

if TYPE_CHECKING:
    from autotune.workload.seams.scaling import Scaler
    from autotune.workload.steps.rehearsal import Rehearsal

# Steps in which new modules are looked for and call sites noted, by hooks that are gone afterwards.
DISCOVERY_STEPS = 2
# And so many more where models may be made anew for each of them.
MOST_DISCOVERY_STEPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """What an optimizer trains: where and as what it was built, and how many weights it has."""

    place: Place | None
    kind: type
    size: int


@dataclass(slots=True, weakref_slot=True, eq=False)
class Live:
    """State shared by the seams of one run.

    A step is `plain` where nothing is to be done but to count and to time it: the program trains,
    on the batches that its own loader gives, and all has been seen that is noted of the first
    steps. The hooks ask for that first, and then run as little Python as may be: what runs cold,
    between a step's own work, costs ten times what a loop of it would show.

    `clock` and `pace` are set right after construction, before any seam is installed.
    """

    setup: Setup
    training_loader: LoaderKey | None = None
    passed_loops: int = 0  # training loops of the program before the one that is measured

    # What a plain step needs lies together, for it is out of the caches when a hook comes to it.
    plain: bool = False
    stepping: bool = False
    in_backward: bool = False
    backwards: int = 0
    backwards_before: int = 0  # the last step
    derivations: int = 0  # gradients taken of a loss, of whatever
    own_gradients: bool = False  # some step had no backward pass
    # Optimizers that had nothing to go by in their first step.
    idle: "weakref.WeakSet[torch.optim.Optimizer]" = field(default_factory=weakref.WeakSet)
    others: int = 0  # steps of other optimizers since the leading one's last
    others_at: tuple[int, int] = (-1, 0)  # the backward pass of the last that counted, and its id
    led_from: int = 0  # the step with which the leading one began
    led_uncounted: int = 0  # steps that it had taken by then
    fresh_samples: int = 0  # that a plain step has drawn since the last backward
    # Since the last backward otherwise: of which, what has its loader, and how many samples.
    drawn: list[tuple[BuiltLoader, Callable[[], Any], int]] = field(default_factory=list)
    draw_began: float | None = None  # since the last step
    drained: Any = None  # iterator of an epoch that is drawn with no model
    # As drawn, of one not known to train.
    stranger: tuple[BuiltLoader, Callable[[], Any], int] | None = None
    looked: bool = False  # a batch was computed without gradients, and none with them since
    leader: "weakref.ref[torch.optim.Optimizer] | None" = None
    clock: Clock = field(init=False)
    pace: Beat = field(init=False)

    elsewhere: bool = False  # in a fork of the process that trains: a loader's worker
    discovering: bool = True  # call sites and new modules are still being noted
    discovered_at: int = DISCOVERY_STEPS  # the step with which that ends

    thread: int = field(default_factory=threading.get_ident)  # that trains
    loaders: list[BuiltLoader] = field(default_factory=list)
    built_at: Counter[Place] = field(default_factory=Counter)  # how many of them, those gone too
    leading_loader: BuiltLoader | None = None  # that trained first, or is made anew at its place
    drawn_in_thread: bool = False  # by another than that which trains, ahead of the loop
    fed: Fed = field(default_factory=Fed)
    # Before each of the first backwards: which loader led, and of which each batch was, how large.
    draws: list[tuple[BuiltLoader, list[tuple[BuiltLoader, int]]]] = field(default_factory=list)
    ahead: int = 0  # batches drawn before the step on the one before
    batch: Any = None  # one training batch, as it was drawn
    # Of each loader that trains, and those that are made anew of it.
    batches: dict[Source, tuple[BuiltLoader, Any]] = field(default_factory=dict)
    kept_batches: dict[BuiltLoader, Replayed] = field(default_factory=dict)  # what a replay feeds
    replayed: int = 0  # batches of a replay since the last step
    parts: dict[Source, deque[tuple[Any, float]]] = field(default_factory=dict)  # to be given
    rehearsal: "Rehearsal | None" = None  # batches are trained twice, whole and in parts

    models: Models = field(default_factory=Models)
    # Each kind of call: the module's id, the shape of its first tensor, the numbers beside it.
    calls: set[tuple[int, tuple[int, ...], tuple[float, ...]]] = field(default_factory=set)
    forward_begun: bool = False  # a module was called since the last backward
    evaluated: int = 0  # the id of that one, where it was not in training mode
    forward_samples: int = 0  # of the last training forward, for programs without a loader
    outputs: Outputs = field(default_factory=Outputs)
    autocast: str = ""
    open_autocast: Any = None

    led: Led | None = None  # what the leading optimizer trains
    led_before: "weakref.ref[torch.optim.Optimizer] | None" = None
    have_led: "weakref.WeakSet[torch.optim.Optimizer]" = field(default_factory=weakref.WeakSet)
    is_shared_place: bool = False  # optimizers that were built there step in turns
    passed: list[Led] = field(default_factory=list)  # what those trained that led before it
    taking_turns: bool = False  # a loop of one of those has come again
    optimizers: list["weakref.ref[torch.optim.Optimizer]"] = field(default_factory=list)
    closure: bool = False
    unscaled_loss: Any = None  # what the user's GradScaler was given last
    last_derived: Any = None  # the number that `torch.autograd.grad` was given last
    scaler_seen: bool = False
    skipped: int = 0  # steps of the leading optimizer that the user's GradScaler left out
    scaler: "Scaler | None" = None  # ours
    set_to_none: bool = True
    # Anomaly detection as the program has set it (on, looking for NaN), while it is kept off.
    own_anomaly: tuple[bool, bool] | None = None
    averages: list[Average] | None = None  # of its optimizers, where they are followed
    given: list[tuple[int, int]] | None = None  # what loaders gave, as `looks/watches.py` has it
    copied: Copied = field(default_factory=Copied)
    group_open: bool = False  # micro-batches of the current batch are still to come
    holding: bool = False  # gradients of some of its micro-batches are held
    share: float = 1.0  # of the current micro-batch in its batch

    # By which step and where processes were started and not waited for, by their objects' ids.
    processes: dict[int, tuple[int, Place]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    passes: Passes = field(default_factory=Passes)
    frozen: "weakref.ref[nn.Module] | None" = None  # at whose place a model had no gradients
    patches: Patches = field(default_factory=Patches)

    def __post_init__(self) -> None:
        _LIVES.add(self)

    def leave_training(self) -> None:
        """A trained model is called without gradients: what was drawn for that was not training."""
        self.plain = False
        if self.draw_began is not None and not (self.pace.away or self.drawn_in_thread):
            self.clock.take_back("data")
        self.pace.leave_training(self.draw_began)

    def pass_over(self) -> None:
        """A step of a loop before the one that is measured: what was seen of it is not of that."""
        for seen in (self.drawn, self.draws, self.calls, self.passes):
            seen.clear()
        self.models.forget()
        self.batches.clear()
        self.places.clear()
        self.leading_loader = self.batch = None
        self.backwards = self.backwards_before = self.skipped = self.ahead = 0
        self.copied, self.fed = Copied(), Fed(keeps=self.fed.keeps)
        self.outputs = Outputs()
        self.pace.pass_over()

    def discover_again(self) -> None:
        """The training has changed: the next steps are looked at as the first ones were."""
        self.discovered_at = self.pace.steps + 1 + DISCOVERY_STEPS
        self.discovering, self.plain = True, False
        self.pace.look_again()

    @property
    def beginning(self) -> bool:
        """Whether these are the first steps of all."""
        return self.discovering and self.discovered_at == DISCOVERY_STEPS

    def end_step(self) -> None:
        """An optimizer step is complete."""
        self.passes.count(self.pace.steps, self.backwards)
        self.draw_began, self.backwards_before = None, self.backwards
        self.others = self.replayed = 0
        if not self.pace.pending_samples:
            self.note_undrawn()
        elif self.leading_loader is not None and not self.plain:
            drawn = self.pace.pending_samples
            self.pace.pending_samples = self.fed.trained(drawn, self.forward_samples)
        self.fed.end_step()
        if self.discovering:
            self._end_of_discovery()
        self.pace.step()
        self.plain = self._is_plain()

    def note_undrawn(self) -> None:
        """Nothing was drawn for this step; where batches are drawn ahead, it was for another. One
        of a program without a loader that called no module counts as one sample.
        """
        if self.leading_loader is None:
            self.pace.pending_samples = 1
        elif not (self.ahead or self.drawn_in_thread):
            self.pace.pending_samples = self.fed.again(self.forward_samples)
            self.plain = False

    def _end_of_discovery(self) -> None:
        """One of the first steps is complete."""
        steps = self.pace.steps + 1
        self.clock.follow(self.device())
        self.outputs.end_step()
        self.models.end_step(self.pace.steps)
        longer = self.models.may_be_made_anew and steps < self.discovered_at + MOST_DISCOVERY_STEPS
        self.discovering = steps < self.discovered_at or longer
        if self.models.made_anew:
            self.discovering = False
            self.patches.take_out(lambda owner, _: isinstance(owner, nn.Module))

    def _is_plain(self) -> bool:
        setup = self.setup
        changes = setup.micro_batches > 1 or setup.precision or setup.prefetch_to_device
        fed = self.kept_batches or self.rehearsal or self.leading_loader is None or not self.leader
        other = self.discovering or self.elsewhere or self.drawn_in_thread or self.scaler_seen
        own = self.own_gradients or self.fed.kept or self.passes.looking
        return not (changes or fed or other or own or self.pace.away)

    def device(self) -> torch.device:
        """Where what trains has its parameters; the CPU as long as nobody knows."""
        for module in self.models.trained:
            return next(iter(module.parameters())).device
        leader = self.leader() if self.leader else None
        for weight in weights_of(leader) if leader else ():
            return torch.device(weight.device)
        return torch.device("cpu")

    def patch(self, owner: Any, name: str, replacement: Any) -> None:
        """Put `replacement` in the place of `owner.name` until `unpatch`."""
        self.patches.put(owner, name, replacement)

    def unpatch(self, *, staying: Set[str] = frozenset()) -> None:
        """Take every hook out again but those of the names `staying`, and let go of what is the
        program's.
        """
        self.patches.take_out(lambda _, name: name not in staying)
        self.models.latest = None
        for built in self.loaders:
            built.kept = None
        for known in self.optimizers:
            if (optimizer := known()) is not None:
                vars(optimizer).pop("step", None)

    def unhook(self, owner: Any, name: str) -> None:
        """Take the hooks of one attribute out again."""
        self.patches.take_out(lambda each, at: each is owner and at == name)

    def note_place(self, role: str) -> None:
        """Remember the user's line that led here, as the place of `role`."""
        place = calling_place()
        if place is not None:
            self.places[role] = place


_LIVES: "weakref.WeakSet[Live]" = weakref.WeakSet()


def _note_fork() -> None:
    for live in _LIVES:
        live.elsewhere, live.plain = True, False


# Asking for the process id in each hook would cost 5 us each time: a system call empties caches.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
