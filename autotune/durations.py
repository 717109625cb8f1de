"""Lengths of time as people write them."""

import math
import re

from autotune.errors import UsageError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_duration(text: str | float) -> float:
    """Seconds in "90", "90s", "5m", "1h", "1h30m" or a number of seconds.

    Raises:
        UsageError: it is none of these, or not more than zero.
    """
    seconds = float(text) if isinstance(text, (int, float)) else _parse(str(text).strip().lower())
    if not (seconds > 0 and math.isfinite(seconds)):
        raise UsageError(
            f"{text!r} is not a length of time", "write seconds, minutes or hours: 60s, 5m, 1h30m"
        )
    return seconds


def _parse(text: str) -> float:
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|h|m|s|)\s*", text)
    whole = re.fullmatch(r"(?:\d+(?:\.\d+)?\s*(?:min|h|m|s|)\s*)+", text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if whole else 0.0
