import pytest

from autotune.knobs import KNOBS
from autotune.knobs.page import HEADINGS
from tests.cli.conftest import Run


def test_every_knob_is_named_in_a_line(run: Run) -> None:
    lines = run("explain").stdout.splitlines()

    assert [line.split()[0] for line in lines] == [knob.name for knob in KNOBS]


@pytest.mark.parametrize("name", [knob.name for knob in KNOBS])
def test_every_knob_has_its_page(run: Run, name: str) -> None:
    lines = run("explain", name).stdout.splitlines()

    assert lines[0].startswith(f"{name}  ")
    assert [line for line in lines if line in HEADINGS] == list(HEADINGS)


def test_a_page_ends_with_when_the_knob_is_tried(run: Run) -> None:
    last = run("explain", "num_workers").stdout.splitlines()[-1]

    assert last.endswith("unless told --allow identical. --knob num_workers=off leaves it out.")


def test_an_unknown_knob_is_refused_with_those_there_are(run: Run) -> None:
    answer = run("explain", "warp_drive")

    assert answer.exit_code == 2
    assert "num_workers" in answer.stderr
