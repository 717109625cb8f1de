"""How fast the programs of a search are, by the turns that they took."""

from autotune.measurement.statistics import throughput
from autotune.outputs import wording
from autotune.profiling.profile import TAKEN_AGAIN, Profile
from autotune.result import Result
from autotune.verdict import BASELINE, DELIVERED, TUNED, Verdict
from autotune.workload.window import AS_IS, Window

Interval = tuple[float, float]

# A program's speed in turns is another than in its profile where they lie so many times apart.
_ANOTHER_SPEED = 1.1
_SEVERAL = 3  # sets of processes tell themselves how far they differ


def turns_interval(turns: tuple[tuple[int, float], ...]) -> Interval | None:
    """The 95 % interval of samples per second in `turns` (samples, seconds), None of fewer than
    two.
    """
    if len(turns) < 2:
        return None
    windows = [
        Window(mode=AS_IS, steps=1, samples=samples, seconds=seconds) for samples, seconds in turns
    ]
    return throughput(windows)[1]


def in_turns(verdict: Verdict) -> dict[str, float]:
    """Samples per second of what took turns, by name. Where the emitted program took them for the
    settings, it is the one that is named: they are the same turns.
    """
    delivered = verdict.delivered.samples_per_second if verdict.delivered else None
    speeds = {
        BASELINE: verdict.baseline_samples_per_second,
        TUNED: verdict.tuned_samples_per_second,
        DELIVERED: delivered,
    }
    turns = verdict.turns
    if delivered is not None and turns.get(DELIVERED) == turns.get(TUNED):
        del speeds[TUNED]
    return {name: speed for name, speed in speeds.items() if speed is not None}


def handed_back(result: Result) -> tuple[float, Interval] | None:
    """Samples per second, with their interval, of the faster program: of the emitted one where it
    was timed and is handed back, else with its settings; None where none was found, or its turns
    are too few.
    """
    verdict = result.verdict
    if verdict is None or verdict.outcome != "faster":
        return None
    delivered = verdict.delivered
    name, speed = TUNED, verdict.tuned_samples_per_second
    if result.patch and delivered is not None and delivered.speedup is not None:
        name, speed = DELIVERED, delivered.samples_per_second
    interval = turns_interval(verdict.turns.get(name, ()))
    return (speed, interval) if speed and interval else None


def patch_alone(result: Result) -> str:
    """What the answer's gain is with, and the patch's own, in a sentence; "" where the patch has
    every setting, or nothing was found.
    """
    verdict = result.verdict
    left_out = dict.fromkeys(each.knob for each in result.edits if each.status == "refused")
    if verdict is None or verdict.outcome != "faster" or not left_out:
        return ""
    whole = "That is with all of the settings, as `autotune run` starts it"
    own = verdict.delivered.speedup if verdict.delivered else None
    if not result.patch or own is None:
        return f"{whole}."
    without = f"the patch, without {', '.join(left_out)}, came out"
    return f"{whole}; {without} {wording.ratio(own.estimate)} ({wording.interval_text(own)})."


def timed(verdict: Verdict, profile: Profile) -> str:
    """How far into the training the turns reach that a gain was timed in; "" without turns."""
    taken, sets = verdict.turns.get("baseline", ()), len(verdict.rounds)
    if not taken or not sets or not profile.seen.samples_per_step:
        return ""
    steps = sum(samples for samples, _ in taken) / profile.seen.samples_per_step / sets
    turns, each = wording.counted(len(taken), "turn"), max(1, round(steps))
    by = "one set of processes," if sets == 1 else f"{sets} sets of processes, in each"
    said = (
        f"in {turns} of each program by {by} some {wording.counted(each, 'step')} of it as it is, "
        "soon after its start, and as long of the tuned one; what later steps do otherwise is in "
        "no figure"
    )
    return "; ".join(filter(None, (said, _why_rough(verdict, profile), _alone(verdict, profile))))


def _why_rough(verdict: Verdict, profile: Profile) -> str:
    """Why no more than the interval's lower end is claimed; "" where more is."""
    if not verdict.is_rough:
        return ""
    if len(verdict.rounds) < _SEVERAL:
        only = "one set" if len(verdict.rounds) == 1 else f"{len(verdict.rounds)} sets"
        why = f"it was {only} of processes only, and those of one program differ"
    elif profile.doubt(TAKEN_AGAIN):
        why = (
            "how much memory it takes anew, and its speed with it, may differ from process to "
            "process"
        )
    else:
        why = "its turns, or its processes, differ among themselves"
    return f"the interval is wide since {why}"


def _alone(verdict: Verdict, profile: Profile) -> str:
    """What speed the program as it is was profiled at, where that is another than in turns."""
    alone, beside = profile.samples_per_second, verdict.baseline_samples_per_second
    if not alone or not beside or 1 / _ANOTHER_SPEED < alone / beside < _ANOTHER_SPEED:
        return ""
    profiled, here = wording.rate(alone), wording.rate(beside)
    return f"the program as it is had {profiled} when it was profiled, and {here} here"
