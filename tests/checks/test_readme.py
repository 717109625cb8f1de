"""The table of knobs goes between README's markers."""

import pytest

from tests.checks.readme import END, START, with_table


def test_the_table_replaces_the_one_that_was_there() -> None:
    text = f"above\n{START}| old |\n{END}below\n"
    assert with_table(text, "| new |\n") == f"above\n{START}| new |\n{END}below\n"


def test_a_readme_without_its_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="needs one"):
        with_table("no table here\n", "| new |\n")
