"""Figures in words: how numbers with units read in the report and in headers."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from autotune.diagnosis.finding import end, times
from autotune.diagnosis.validation import validation_seen
from autotune.knobs.knob import Value
from autotune.profiling.profile import (
    FILLING,
    FIRST_EPOCH,
    FIRST_READ,
    FROM_MEMORY,
    NO_VALIDATION,
    NOT_ALL_FINITE,
    NOT_FINITE,
    PROCESSORS_TAKEN,
    SHORT_RUN,
    TRACKER_OFF,
    Doubt,
    Profile,
)
from autotune.verdict import Parity, Ratio, Verdict
from autotune.verdict.courses import BAND, LEAST_BAND
from autotune.workload.window import AS_IS

NOT_MEASURED = "not measured"
# Below this a ratio that is shown with two decimals is no gain.
_NO_GAIN = 1.005
# What takes less of a run than this, or is over sooner, need not be said.
_NOTABLE_SHARE, _NOTABLE_SECONDS = 0.05, 10.0
_MUCH_SLOWER = 1.25  # more than what two runs one after another may differ by
_NOISY = 0.25  # of the loss: a band as wide as this hides differences that people would see
# Doubts that say what of the run is in none of the figures.
OUTSIDE = (TRACKER_OFF, NO_VALIDATION, FIRST_READ, FROM_MEMORY)
_CAUTIONS = {
    PROCESSORS_TAKEN: "Measured without all the processors that it could have used: measure again "
    "when the machine is quiet.",
    NOT_FINITE: "Losses are no numbers: mend the training first.",
    NOT_ALL_FINITE: "Some losses are no numbers: look whether those steps are to count.",
    FILLING: "Measured while a cache may fill: later epochs may be faster by themselves.",
    FIRST_EPOCH: "Measured while a cache may fill: later epochs may be faster by themselves.",
    SHORT_RUN: "The program, or its training loop, ended while it was measured: let it train "
    "longer.",
}
_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_TIME_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def significant(number: float | None, digits: int = 3) -> str:
    """`number` with `digits` significant digits, thousands apart: "0.0123", "4.56", "12,346"."""
    if number is None or not math.isfinite(number):
        return NOT_MEASURED
    if number == round(number):
        return f"{number:,.0f}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    return f"{number:,.{decimals}f}"


def rate(samples_per_second: float | None) -> str:
    """A throughput: "412 samples/s"."""
    text = significant(samples_per_second)
    return text if text == NOT_MEASURED else f"{text} samples/s"


def energy(joules_per_sample: float | None) -> str:
    """What a sample takes: "2.04 J a sample"."""
    text = significant(joules_per_sample)
    return text if text == NOT_MEASURED else f"{text} J a sample"


def ratio(value: float | None) -> str:
    """A ratio: "2.31x" with a true multiplication sign; two decimals below 10."""
    return NOT_MEASURED if value is None or not math.isfinite(value) else times(value)


def ceiling(max_gain: float | None) -> str:
    """The most that something could gain: "2.31x", or that it would gain nothing."""
    if max_gain is not None and max_gain < _NO_GAIN:
        return "would gain nothing"
    return ratio(max_gain)


def faster(speedup: float) -> str:
    """How much faster: "1.56x faster"; never "faster" of what is not."""
    if speedup < _NO_GAIN:
        return f"not faster, {ratio(speedup)} the speed"
    return f"{ratio(speedup)} faster"


def at_least(speedup: float) -> str:
    """How much faster at least: "At least 1.08x faster", "At least as fast"."""
    return f"At least {'as fast' if speedup < _NO_GAIN else faster(speedup)}"


def interval_text(value: Ratio) -> str:
    """The interval of a ratio: "2.12 to 2.50, 95 %"."""
    if not math.isfinite(value.high):
        return "how far off that may be is not known"
    return f"{end(value.low)} to {end(value.high)}, {percent(value.confidence)} interval"


def percent(share: float | None) -> str:
    """A share: "71 %", "-0.4 %"; a tiny one is never rounded to none."""
    if share is None or not math.isfinite(share):
        return NOT_MEASURED
    if 0 < abs(share) < 0.001:
        return "< 0.1 %" if share > 0 else "> -0.1 %"
    number = share * 100
    return f"{number:.1f} %" if abs(number) < 10 and number % 1 else f"{number:.0f} %"


def duration(seconds: float | None) -> str:
    """A time in the unit that fits: "24 us", "18.3 ms", "4.2 s", "3.5 min"."""
    if seconds is None or not math.isfinite(seconds):
        return NOT_MEASURED
    for size, unit in _TIME_UNITS:
        if seconds >= 2 * size:
            return f"{significant(seconds / size, 2)} {unit}"
    if seconds >= 1 or seconds == 0:
        return f"{significant(seconds)} s"
    if seconds >= 1e-3:
        return f"{significant(seconds * 1e3)} ms"
    return f"{significant(seconds * 1e6)} µs"


def size(count: int | None) -> str:
    """Bytes in the unit that fits: "412 MiB"."""
    if count is None:
        return NOT_MEASURED
    amount = float(count)
    for unit in _BYTE_UNITS:
        if amount < 1024 or unit == _BYTE_UNITS[-1]:
            break
        amount /= 1024
    return f"{significant(amount)} {unit}"


def value(setting: Value) -> str:
    """A knob's value: "on", "off", 4, bf16."""
    if isinstance(setting, bool):
        return "on" if setting else "off"
    return str(setting)


def settings(config: Mapping[str, Value]) -> str:
    """A configuration on one line: "num_workers 4, pin_memory on"; "as it is" when empty."""
    return ", ".join(f"{name} {value(each)}" for name, each in config.items()) or "as it is"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 trial", "24 trials"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def as_far(parity: Parity) -> str:
    """The reservation with which losses are called the same, where they tell little."""
    if parity.band is None or LEAST_BAND < parity.band <= _NOISY:
        return ""
    what = "losses with so much noise" if parity.band > _NOISY else "losses that hardly moved"
    return f", as far as {what} can tell"


def skipped(parity: Parity) -> str:
    """What a GradScaler left out of the tuned training; "" where there is nothing to say."""
    steps = counted(parity.skipped_steps, "step")
    return f"; its GradScaler left out {steps} (overflow)" if parity.skipped_steps else ""


def moment(started_at: str) -> str:
    """An ISO 8601 moment for people: "21 November 2026, 04:25 UTC"; other text stays as it is."""
    try:
        when = datetime.fromisoformat(started_at)
    except ValueError:
        return started_at
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    return f"{when.day} {when:%B %Y, %H:%M} UTC"


def cautions(profile: Profile) -> tuple[tuple[str, str], ...]:
    """What must be said before any figure of `profile`, each with its evidence."""
    return tuple(
        (_CAUTIONS[doubt.name], doubt.evidence)
        for doubt in profile.doubts
        if doubt.name in _CAUTIONS
    )


def further_doubts(profile: Profile) -> tuple[Doubt, ...]:
    """Those that neither cautions tell nor what is in none of the figures."""
    return tuple(each for each in profile.doubts if each.name not in (*_CAUTIONS, *OUTSIDE))


def finding(profile: Profile, headline: str) -> str:
    """What was found first, as sure as it is."""
    if profile.doubt(PROCESSORS_TAKEN) is None:
        return headline
    return f"What follows may not hold on a quiet machine. {headline}"


def outside(profile: Profile, verdict: Verdict | None = None) -> str:
    """What of the run is in none of the figures: what takes notable time, its tracker, and waiting
    for storage; else "". Validations are where a `verdict` says what a gain comes to with them.
    """
    told = bool(verdict and with_validations(verdict))
    came = bool(verdict and verdict.validations and verdict.validations.share)
    names = [each for each in OUTSIDE if not (came and each == NO_VALIDATION)]
    doubts = filter(None, map(profile.doubt, names))
    parts = (_outside_the_loop(profile, told), *(each.evidence for each in doubts))
    return " ".join(filter(None, parts))


def withheld(verdict: Verdict) -> str:
    """Why a gain is not handed back, in two or three words."""
    if verdict.breaks:
        return "Fails later"
    found = verdict.validations
    between = found is not None and (found.between or found.generates)
    slower = "Slower between steps" if between else "Slower validations"
    return slower if verdict.slows else "Another training"


def with_validations(verdict: Verdict) -> str:
    """What a gain comes to with the validations between its steps; "" where hardly any came."""
    found = verdict.validations
    if found is None or verdict.outcome != "faster":
        return ""
    each = "what it does between its steps" if found.generates else "its validations"
    what = each if found.generates else "a validation"
    if found.share == 0 and found.tuned_seconds > _MUCH_SLOWER * found.own_seconds:
        return (
            f"Where its epochs are cut short {what} takes {duration(found.tuned_seconds)} "
            f"with these settings, and {duration(found.own_seconds)} before."
        )
    if found.share < _NOTABLE_SHARE:
        return ""
    return (
        f"With {each} counted in, {found.often}, it is {ratio(found.whole)} as fast: one"
        f"{', where its epochs are cut short,' if found.short else ''} takes "
        f"{duration(found.tuned_seconds)}, and {duration(found.own_seconds)} before."
    )


def reordered(profile: Profile, verdict: Verdict) -> str:
    """That samples come in another order later on, as the sentence on losses goes on: workers that
    live on take a number less from random numbers as each epoch begins.
    """
    loader = profile.seen.loader
    if not (verdict.config.get("persistent_workers") and loader and loader.shuffle):
        return ""
    return "; from its second epoch on its samples come in another random order"


def allowed(parity: Parity) -> str:
    """By how much losses may differ, and why."""
    band = parity.band or 0.0
    if band <= BAND:
        return f"{percent(band)} is allowed"
    return f"their own noise allows {percent(band)}"


def _outside_the_loop(profile: Profile, validations_told: bool) -> str:
    parts = []
    if profile.validation_share > _NOTABLE_SHARE and not validations_told:
        parts.append(validation_seen(profile))
    passed = 0 if profile.seen.taking_turns else profile.seen.passed_loops
    if passed or _starts_slowly(profile):
        loops = f", with {counted(passed, 'training loop')} that ended soon," if passed else ""
        parts.append(f"the start{loops} takes {start(profile)}")
    if not parts:
        return ""
    text = " and ".join(parts)
    which = "both are" if len(parts) > 1 else "that is"
    return f"{text[0].upper()}{text[1:]}: {which} outside these figures."


def start(profile: Profile) -> str:
    """How long the program took to its first step, and how much of that is compiling."""
    whole, compiling = profile.startup_seconds, profile.compiling_seconds
    if compiling <= _NOTABLE_SHARE * whole:
        return duration(whole)
    return f"{duration(whole)} ({duration(compiling)} of it compiling)"


def _starts_slowly(profile: Profile) -> bool:
    if not profile.ended_early:
        return profile.startup_seconds >= _NOTABLE_SECONDS
    trained = sum(window.seconds for window in profile.windows if window.mode == AS_IS)
    return profile.startup_seconds > _NOTABLE_SHARE * (profile.startup_seconds + trained)
