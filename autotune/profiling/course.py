"""Courses of a training that its figures cannot be read without."""

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise

from autotune.profiling.profile import MORE_PASSES, NO_VALIDATION, SHORT_RUN, TRACKER_OFF, Doubt
from autotune.source.edits import Place
from autotune.source.loops.by_the_clock import ByTheClock
from autotune.workload.found import BESIDE, BusyLine
from autotune.workload.seen import Seen, SeenTracker
from autotune.workload.window import Window

# Distinct shapes of the model's input beyond a full batch, an incomplete last one and one more.
MOST_SHAPES = 3
_NOTABLE_CALLS = 0.01  # of a tracker, per step
_IN_EACH = 0.5  # of the steps: what is done before more of them is part of a step
# Steps with as many backward passes, of a training that has more and more of them.
_LONG_STRETCH = 10

_SHORT_RUN = Doubt(
    name=SHORT_RUN,
    evidence="It ended while it was profiled, and was started again.",
)
_TURNS = Doubt(
    name="loops in turns",
    evidence="Two training loops, each with an optimizer of its own, take turns: steps are "
    "those of the second, and what the first takes between them is part of their time.",
)
_NO_MODULE = Doubt(
    name="no module",
    evidence="No module that the program trains was seen to be called as model(x) (as where a "
    "method of it is, a function is compiled, or weights are its own): the forward pass and "
    "its other Python cannot be told apart, and without a DataLoader a step counts as one "
    "sample.",
)
_NO_BACKWARD = Doubt(
    name="no backward",
    evidence="The gradients come from no backward pass (torch.func, say): computing them and "
    "the program's other Python cannot be told apart, and count as computing.",
)


def doubts_of_course(seen: Seen, *, ended_early: bool) -> tuple[Doubt, ...]:
    """What must be known of how the observed program trains: it ends before it is stable, an epoch
    is one step, shapes change.
    """
    found = []
    if seen.taking_turns:
        found.append(_TURNS)
    elif seen.passed_loops:
        found.append(_later_loop(seen.passed_loops))
    if seen.gpus > 1:
        found.append(_several_gpus(seen.gpus))
    if ended_early:
        found.append(_SHORT_RUN)
    if seen.loader is not None and seen.loader.length == 1:
        found.append(_one_step(seen))
    if not seen.models:
        found.append(_NO_MODULE)
    elif seen.makes_own_gradients:
        found.append(_NO_BACKWARD)
    if _has_ever_more_passes(seen):
        found.append(_more_passes(seen))
    if seen.shapes > MOST_SHAPES:
        found.append(
            Doubt(
                name="changing shapes",
                evidence=f"The model was called with {seen.shapes} shapes of input or more: steps "
                "may differ in length, and the figures are means over those that came.",
            )
        )
    return tuple(found)


def doubts_of_validation(
    seen: Seen, windows: Iterable[Window], *, evaluated: str = ""
) -> tuple[Doubt, ...]:
    """What must be known of a program that did not come in `windows` to what it does between its
    steps: its source shows that it evaluates its model (`evaluated`, a file and line), or it has
    loaders for something else, and no epoch came to its end.
    """
    epochs = seen.loader.epochs if seen.loader else 0
    in_each_step = seen.evaluated_share > _IN_EACH
    if in_each_step or any(window.validations for window in windows):
        return ()
    if evaluated:
        does = "By its source the program may run a model between steps without training it "
        does += f"({evaluated})"
        return (_no_validation(does, "that"),)
    if not seen.other_loaders or epochs > 1:
        return ()
    one = seen.other_loaders == 1
    others = "another loader" if one else f"{seen.other_loaders} other loaders"
    what = "what that is for" if one else "what those are for"
    to = "the end of an epoch" if seen.loader else what  # without one nobody knows its epochs
    return (_no_validation(f"The program has {others}", to),)


def _no_validation(what: str, to: str) -> Doubt:
    return Doubt(
        name=NO_VALIDATION,
        evidence=f"{what}, and it was not seen to come to {to} while it was timed: a whole run may "
        "gain less.",
    )


def doubts_of_stopping(stopped: str) -> tuple[Doubt, ...]:
    """What must be known of a program that was given up between two steps: `stopped` says how long
    none came.
    """
    if not stopped:
        return ()
    return (
        Doubt(
            name="steps stopped",
            evidence=f"After the steps that were timed there was {stopped}: what it does then (an "
            "evaluation, metrics, a checkpoint) is in none of the figures, and may take most of "
            "its time.",
            advice="Find out what that is (py-spy dump shows where it is), and do it less often, "
            "before its steps are made faster.",
        ),
    )


def doubts_of_other_loops(places: Sequence[Place]) -> tuple[Doubt, ...]:
    """What must be known of a program that has training loops (at `places`) that were not
    reached.
    """
    if not places:
        return ()
    at = " and ".join(f"{os.path.basename(each.path)}:{each.line}" for each in places)
    several = len(places) > 1
    loops = "other training loops" if several else "another training loop"
    return (
        Doubt(
            name="other loop",
            evidence=f"The source has {loops} ({at}), which {'were' if several else 'was'} not "
            f"reached while the program was observed: what {'they take' if several else 'it takes'}"
            ", where the program comes to that, is in none of the figures.",
            advice="Where that is most of the training, let it come sooner (fewer epochs of this "
            "one) and measure again.",
        ),
    )


def doubts_of_the_clock(found: ByTheClock) -> tuple[Doubt, ...]:
    """What must be known of a program that trains by the clock, as its source was `found` to."""
    doubts = []
    if found.end:
        doubts.append(
            Doubt(
                name="ends by the clock",
                evidence=f"By its source a condition on the clock may end the training "
                f"({found.end}): where it does, a faster program makes more steps in that time, "
                "and ends no sooner.",
                advice="Where it does, read a gain as more steps in the same time.",
            )
        )
    if found.rate:
        doubts.append(
            Doubt(
                name="rate by the clock",
                evidence=f"By its source the learning rate goes by the clock ({found.rate}): where "
                "it does, a faster program trains the same step with another one, which is another "
                "training.",
                advice="Compute it from the step, where the training is to be the same at any "
                "speed.",
            )
        )
    return tuple(doubts)


def doubts_of_trackers(seen: Seen) -> tuple[Doubt, ...]:
    """What must be known of a program whose experiment tracker was not to send anything."""
    if not seen.trackers:
        return ()
    names = " and ".join(map(_tracker, seen.trackers))
    were = "was" if len(seen.trackers) == 1 else "were"
    return (
        Doubt(
            name=TRACKER_OFF,
            evidence=f"{names} {were} kept from sending while it was timed: what logging costs is "
            "in these figures in part at the most.",
        ),
    )


def _tracker(tracker: SeenTracker) -> str:
    if tracker.calls_per_step < _NOTABLE_CALLS:
        return tracker.name
    calls = f"{tracker.calls_per_step:.2g}"
    return f"{tracker.name} ({calls} {'call' if calls == '1' else 'calls'} a step)"


def doubts_of_threads(lines: Sequence[BusyLine]) -> tuple[Doubt, ...]:
    """What must be known of a program whose own threads compute beside its training."""
    beside = next((line for line in lines if line.phase == BESIDE), None)
    if beside is None:
        return ()
    place = f"{beside.function}, {os.path.basename(beside.path)}:{beside.line}"
    return (
        Doubt(
            name="thread beside",
            evidence=f"Another thread of the program's own ({place}), or several, computes "
            f"meanwhile, for {100 * min(1.0, beside.share):.0f} % of the time: each of the "
            "phases may be longer for it.",
            advice="Have another process do that work (the workers of a DataLoader), where it is "
            "Python's.",
        ),
    )


def doubts_of_processes(seen: Seen) -> tuple[Doubt, ...]:
    """What must be known of a program that starts processes beside its training."""
    if (place := seen.process_beside) is None:
        return ()
    where = f"{os.path.basename(place.path)}:{place.line}"
    return (
        Doubt(
            name="process beside",
            evidence=f"It starts processes while it trains ({where}) and goes on beside them: a "
            "whole run may gain less.",
            advice="Time whole runs of both, or have such processes run once the training is over.",
        ),
    )


def _has_ever_more_passes(seen: Seen) -> bool:
    pairs = list(pairwise(seen.passes))
    grows = all(
        more > passes and later - step >= _LONG_STRETCH for (step, passes), (later, more) in pairs
    )
    return bool(pairs) and grows


def _more_passes(seen: Seen) -> Doubt:
    *_, (_, before), (step, now) = seen.passes
    return Doubt(
        name=MORE_PASSES,
        evidence=f"Each step has {now} backward passes since step {step + 1:,}, and had {before} "
        "until then: where later ones have still more, what they take and gain is in no figure.",
        advice="Time whole runs of both, or let what comes last come soon and measure again.",
    )


def _later_loop(passed: int) -> Doubt:
    which = "A training loop" if passed == 1 else f"{passed} training loops"
    return Doubt(
        name="later loop",
        evidence=f"{which} before this one ended soon, and {'is' if passed == 1 else 'are'} not "
        "measured.",
    )


def _several_gpus(count: int) -> Doubt:
    return Doubt(
        name="several GPUs",
        evidence=f"The program computes on {count} GPUs from one process: phases, memory and what "
        "the driver says are of the first of them, and how busy they are is not known.",
        advice="Show it one of them (CUDA_VISIBLE_DEVICES=0), or have a process train on each "
        "(torchrun), of which one is measured.",
    )


def _one_step(seen: Seen) -> Doubt:
    evaluates = "validation, " if seen.evaluated_share > _IN_EACH else ""
    return Doubt(
        name="one step an epoch",
        evidence="An epoch is a single batch: what happens between epochs (starting the loader, "
        f"{evaluates}checkpoints) counts as part of each step.",
    )
