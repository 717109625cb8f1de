"""How fast the programs of a search are, by the turns that they took."""

from autotune.diagnosis.validation import steps_of_an_epoch
from autotune.measurement.statistics import throughput
from autotune.outputs import wording
from autotune.profiling.profile import Profile
from autotune.result import Result
from autotune.verdict import BASELINE, DELIVERED, TUNED, Verdict
from autotune.workload.window import AS_IS, Window

Interval = tuple[float, float]

# A program's speed in turns is another than in its profile where they lie so many times apart.
_ANOTHER_SPEED = 1.1
_SEVERAL = 3  # sets of processes tell themselves how far they differ
_SOME_EPOCHS = 2  # fewer are told in steps alone
_SLOW_START_SECONDS = 1.0


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
    """In how many turns, processes and steps a gain was timed; "" without turns."""
    taken, sets = verdict.turns.get("baseline", ()), len(verdict.rounds)
    if not taken or not sets or not profile.seen.samples_per_step:
        return ""
    steps = sum(samples for samples, _ in taken) / profile.seen.samples_per_step / sets
    turns, each = wording.counted(len(taken), "turn"), max(1, round(steps))
    by = "one set of processes," if sets == 1 else f"{sets} sets of processes, in each"
    said = f"in {turns} of each program by {by} some {wording.counted(each, 'step')} of it as it is"
    if verdict.is_rough and sets < _SEVERAL:
        said += "; the interval is wide since processes of one program differ"
    return said + _alone(verdict, profile)


def _alone(verdict: Verdict, profile: Profile) -> str:
    """What speed the program as it is was profiled at, where that is another than in turns."""
    alone, beside = profile.samples_per_second, verdict.baseline_samples_per_second
    if not alone or not beside or 1 / _ANOTHER_SPEED < alone / beside < _ANOTHER_SPEED:
        return ""
    return (
        f"; the program as it is had {wording.rate(alone)} when it was profiled, and "
        f"{wording.rate(beside)} here"
    )


def counted_by_shape(profile: Profile) -> str:
    """How samples were counted where no loader says how many there are; "" where one does."""
    if profile.seen.loader is not None:
        return ""
    count = wording.significant(profile.seen.samples_per_step)
    return (
        f"a step counts as {count} sample{'s' * (count != '1')}, by what a model was given before "
        "each backward pass (as one where no model was seen). Where the program counts otherwise "
        "(a sequence for its characters, the rows of several models), ratios hold, and speeds do "
        "not."
    )


def earned_back(result: Result) -> str:
    """How much training pays for the search; "" where nothing was gained."""
    cost = result.cost
    if cost is None or cost.break_even_steps is None:
        return ""
    said = f"{wording.counted(cost.break_even_steps, 'step')} of training"
    epochs = cost.break_even_steps / steps_of_an_epoch(result.profile.seen)
    return f"{said} ({epochs:,.0f} epochs)" if epochs >= _SOME_EPOCHS else said


def longer_start(result: Result) -> str:
    """By how much the faster program starts later, as the sentence on its cost goes on."""
    cost, verdict = result.cost, result.verdict
    said = ""
    if cost and cost.start_seconds >= _SLOW_START_SECONDS:
        said = f", with a start that takes {wording.duration(cost.start_seconds)} longer"
    if verdict and verdict.config.get("compile", "off") != "off":
        said += "; compiling once more where the model is evaluated is not counted"
    return said
