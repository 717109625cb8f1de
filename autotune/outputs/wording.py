"""Figures in words: how numbers with units read in the report and in headers."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from autotune.knobs.knob import Value
from autotune.verdict import Ratio

NOT_MEASURED = "not measured"

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


def ratio(value: float | None) -> str:
    """A ratio: "2.31x" with a true multiplication sign; two decimals below 10."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    return f"{value:.2f}×" if abs(value) < 10 else f"{significant(value)}×"


def interval_text(value: Ratio) -> str:
    """The interval of a ratio: "2.12 to 2.50, 95 %"."""
    return f"{ratio(value.low)} to {ratio(value.high)}, {percent(value.confidence)} interval"


def percent(share: float | None) -> str:
    """A share: "71 %", "0.4 %"; a tiny one is never rounded to none."""
    if share is None or not math.isfinite(share):
        return NOT_MEASURED
    if 0 < share < 0.001:
        return "< 0.1 %"
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


def moment(started_at: str) -> str:
    """An ISO 8601 moment for people: "21 November 2026, 04:25 UTC"; other text stays as it is."""
    try:
        when = datetime.fromisoformat(started_at)
    except ValueError:
        return started_at
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    return f"{when.day} {when:%B %Y, %H:%M} UTC"
