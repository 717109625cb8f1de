import io
import re

import pytest
from rich.cells import cell_len

from autotune.cli.console import Console

SENTENCE = "Waits for data 71 % of each step; loading faster can gain up to 3.4x."


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Latin(io.StringIO):
    encoding = "iso-8859-1"  # type: ignore[assignment]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Terminal()


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return io.StringIO()


def test_a_pipe_gets_each_paragraph_on_one_plain_line(pipe: io.StringIO) -> None:
    console = Console(pipe)

    console.say([(SENTENCE * 5, "banner")], indent=2)

    assert pipe.getvalue() == f"  {SENTENCE * 5}\n"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_text_is_wrapped_to_the_terminal(
    pipe: io.StringIO, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    console = Console(pipe)

    console.say(SENTENCE, indent=2, hang=2)
    console.rows([["num_workers", "0", SENTENCE], ["pin", "off", "x" * 100]])
    console.bars([("data", 0.7, "accent", "71 %"), ("other", 0.3, "quiet", "29 %")])

    lines = pipe.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "".join(lines).count("x") == 100 + SENTENCE.count("x") * 2


def test_rows_line_up(pipe: io.StringIO) -> None:
    Console(pipe).rows([["a", "10", "first"], ["bcd", "9", "second"]], right="1")

    assert pipe.getvalue() == "  a    10  first\n  bcd   9  second\n"


def test_a_row_s_last_cell_goes_below_where_it_has_no_room(
    pipe: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")

    Console(pipe).rows([["a_setting_with_a_name", "0 to 4, in the patch"]])

    assert pipe.getvalue() == "  a_setting_with_a_name\n    0 to 4, in the patch\n"


def test_a_command_is_never_cut(pipe: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    command = f"autotune search {'deep/' * 20}train.py -- --epochs 3"

    Console(pipe).command(command)

    assert pipe.getvalue() == f"  {command}\n"


def test_a_program_s_own_words_cannot_move_the_cursor(pipe: io.StringIO) -> None:
    Console(pipe).say("\x1b[2J\x1b[31mred\x1b[0m \x1b]0;title\x07\rback\bspace [bold]kept[/bold]")

    assert pipe.getvalue() == "red backspace [bold]kept[/bold]\n"


def test_letters_that_the_terminal_lacks_are_said_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Latin()

    Console(stream).say("off → on, 1.84×")
    Console(stream).bars([("data", 1.0, "accent", "all")])

    stream.getvalue().encode("ascii")
    assert stream.getvalue().startswith("off > on, 1.84x\n  data  ===")


def test_a_terminal_gets_colour(terminal: Terminal) -> None:
    Console(terminal).say(("2.12x faster", "banner"))

    assert "\x1b[1;32m2.12x faster" in terminal.getvalue()


def test_no_color_is_respected(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    Console(terminal).say([("faster", "good"), ("crashed", "bad")])

    assert terminal.getvalue() == "fastercrashed\n"


def test_a_share_above_zero_is_never_drawn_as_nothing(pipe: io.StringIO) -> None:
    Console(pipe).bars(
        [("data", 1.0, "accent", ""), ("copy", 1e-6, "quiet", ""), ("x", 0, "quiet", "")]
    )

    data, copy, nothing = (line.split() for line in pipe.getvalue().splitlines())
    assert len(data[1]) == 30
    assert len(copy[1]) == 1
    assert nothing == ["x"]


def test_a_pipe_has_no_live_line(pipe: io.StringIO) -> None:
    console = Console(pipe)

    with console.live(lambda: "0:01 left"):
        console.say("kept")

    assert pipe.getvalue() == "kept\n"


def test_a_live_line_is_taken_away_at_the_end(terminal: Terminal) -> None:
    console = Console(terminal)

    with console.live(lambda: "0:01 " + "long " * 100):
        console.say("kept")

    shown = terminal.getvalue()
    assert "0:01" in shown
    assert "…" in shown
    assert "\x1b[?25h" in shown  # the cursor is back
    assert shown.rstrip("\r").endswith("\x1b[2K")


@pytest.mark.parametrize(
    ("width", "left"),
    [
        (34, "0:01 judging threads 1, workers 2"),
        (33, "0:01 judging threads 1, workers…"),
        (25, "0:01 judging threads 1…"),
        (24, "0:01 judging threads…"),
    ],
)
def test_a_live_line_is_cut_between_words(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, width: int, left: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    console = Console(terminal)

    with console.live(lambda: ["0:01 ", ("judging threads 1, workers 2", "quiet")]):
        pass

    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert shown.split("\r")[0].strip() == left


def test_a_dumb_terminal_gets_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")

    assert not Console(terminal).is_live
