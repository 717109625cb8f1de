"""The page of a knob."""

import subprocess
import sys

import pytest

from autotune.knobs import KNOBS
from autotune.knobs.page import HEADINGS, knob_table, page_of


def test_a_page_has_its_paragraphs_by_heading() -> None:
    page = page_of(KNOBS[0])
    assert page.name == "threads"
    assert page.summary.startswith("How many threads")
    assert page.sections["What it does"].startswith("Sets `torch.set_num_threads`")
    assert "\n" not in "".join(page.sections.values())


def test_a_docstring_without_its_headings_is_refused() -> None:
    class Undocumented:
        name = "undocumented"

    with pytest.raises(ValueError, match=HEADINGS[0]):
        page_of(Undocumented())  # type: ignore[arg-type]


def test_the_table_has_a_row_for_each_knob() -> None:
    lines = knob_table().splitlines()
    assert len(lines) == 2 + len(KNOBS)
    assert all(line.count(" | ") == 3 for line in lines)
    assert all(f"`{knob.name}`" in line for knob, line in zip(KNOBS, lines[2:], strict=True))


def test_knobs_are_imported_without_torch() -> None:
    code = (
        "import sys, autotune.knobs.config, autotune.knobs.page; sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
