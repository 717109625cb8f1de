"""Refuses a README whose table of knobs is not the one that the knobs' own pages make.

python -m tests.checks.readme [--write]
"""

import argparse
import sys
from pathlib import Path

from autotune.knobs.page import knob_table

README = Path(__file__).resolve().parents[2] / "README.md"
START, END = "<!-- knobs -->\n", "<!-- /knobs -->\n"


def with_table(text: str, table: str) -> str:
    """`text` with `table` between its markers.

    Raises:
        ValueError: a marker is missing, or stands there more than once.
    """
    if text.count(START) != 1 or text.count(END) != 1:
        raise ValueError(f"README.md needs one {START.strip()} and one {END.strip()}")
    before, _, rest = text.partition(START)
    return f"{before}{START}{table}{END}{rest.partition(END)[2]}"


def main() -> int:
    """Check, or with `--write` write, the table; 1 where it is not fresh, 0 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table afresh")
    text = README.read_text()
    fresh = with_table(text, knob_table())
    if parser.parse_args().write:
        README.write_text(fresh)
    elif text != fresh:
        print("README.md: the table of knobs is stale: run python -m tests.checks.readme --write")
        return 1
    print("README.md: the table of knobs is fresh")
    return 0


if __name__ == "__main__":
    sys.exit(main())
