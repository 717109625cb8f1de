"""Runs find a terminal where the search was started at one, and read nothing from it."""

import os
from collections.abc import Iterator

import pytest

from autotune.measurement.processes.terminal import open_input, terminal_size

SIZE = os.terminal_size((100, 33))


@pytest.fixture(params=[SIZE, None], ids=["a terminal", "none"])
def given(request: pytest.FixtureRequest) -> Iterator[tuple[os.terminal_size | None, int]]:
    """A size, and what was opened for it."""
    opened = open_input(request.param)
    yield request.param, opened
    os.close(opened)


def test_it_is_a_terminal_of_that_size(given: tuple[os.terminal_size | None, int]) -> None:
    size, opened = given
    assert os.isatty(opened) == (size is not None)
    assert size is None or os.get_terminal_size(opened) == size


def test_reading_ends_at_once_however_often(
    given: tuple[os.terminal_size | None, int],
) -> None:
    assert [os.read(given[1], 100) for _ in range(10)] == [b""] * 10


def test_without_a_terminal_there_is_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert terminal_size() is None
    monkeypatch.setattr("sys.stdin", None)
    assert terminal_size() is None
