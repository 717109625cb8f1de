"""Sizes of memory as people write them."""

import re

from autotune.errors import UsageError

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str | int) -> int:
    """Bytes in "8G", "8GiB", "512M" or a number of bytes; a K is 1024.

    Raises:
        UsageError: it is none of these, or not more than zero.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", str(text).strip().lower())
    size = int(float(found[1]) * 1024 ** _POWERS[found[2]]) if found else 0
    if size <= 0:
        raise UsageError(f"{text!r} is not a size of memory", "write 512M, 8G or 1.5G")
    return size
