"""All commands, and the one place where errors become words and exit codes."""

import errno
import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import Annotated, Any

import typer
import typer.core

from autotune import __version__
from autotune.cli import UNREAD, exit_code_of
from autotune.cli.apply import apply
from autotune.cli.compare import compare
from autotune.cli.doctor import doctor
from autotune.cli.explain import explain
from autotune.cli.profile import profile
from autotune.cli.report import report
from autotune.cli.run import run
from autotune.cli.search import search
from autotune.errors import AutotuneError, MeasurementError, ProgramError, UsageError

_AFTER_DASHES = "What follows -- is the program's own: {} train.py -- --epochs 3"
_GOES_ON = "; trials that had ended by then, if any, are kept: the same command has them."
_FULL = (errno.ENOSPC, errno.EDQUOT)
_OUTPUT_LINES = 30  # the end of what a failed program printed, and of a longer traceback
_FIRST_LINES = 12  # where it begins: the user's own calls
_TRACEBACK = "Traceback (most recent call last):"


class Commands(typer.core.TyperGroup):
    """The commands as a group that says what went wrong."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except AutotuneError as error:
            raise _ended(error) from None
        except BrokenPipeError:
            raise _unread() from None
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
                raise _ended(_too_long(error)) from None
            if isinstance(error, OSError) and error.errno in _FULL:
                raise _ended(_unwritten(error)) from None
            if type(error).__name__ == "NoSuchOption":  # typer's, or click's
                _say_which_there_are(error, ctx.invoked_subcommand)
            raise
        except KeyboardInterrupt as interrupt:
            with suppress(OSError):  # the terminal may be gone
                said = _GOES_ON if ctx.invoked_subcommand == "search" else "."
                print(f"Interrupted{said}", file=sys.stderr)
            raise typer.Exit(exit_code_of(interrupt)) from None


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,  # plain help: it answers sooner and reads well in a narrow terminal
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_OF_A_PROGRAM: tuple[Callable[..., None], ...] = (profile, search)
_OTHERS: tuple[Callable[..., None], ...] = (run, apply, report, compare, explain, doctor)
for command in _OF_A_PROGRAM:
    app.command(epilog=_AFTER_DASHES.format(command.__name__))(command)
for command in _OTHERS:
    app.command()(command)


def _say_which_there_are(error: Any, command: str | None) -> None:
    there_are = {each.lstrip("-"): each for each in error.possibilities or ()}
    likeliest = get_close_matches(error.option_name.lstrip("-"), there_are, 1)
    error.possibilities = None
    said = [f"Did you mean {there_are[each]}?" for each in likeliest]
    if command in {each.__name__ for each in _OF_A_PROGRAM}:
        said.append(_AFTER_DASHES.format(command))
    error.message = ". ".join((error.message, " ".join(said))) if said else error.message


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"autotune {__version__}")
        raise typer.Exit


@app.callback()
def autotune(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Measure what holds a PyTorch training program back, and hand it back faster."""


def _too_long(error: OSError) -> UsageError:
    name = os.path.basename(str(error.filename))
    return UsageError(f"{name[:20]}… is {len(name)} characters long: {error.strerror}.")


def _write_nowhere() -> None:
    """What is left to be shown: Python would fail on it once more as it ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unread() -> typer.Exit:
    """How it ends with a broken pipe: quietly where nobody reads its words."""
    ends = select.poll()
    for stream in (1, 2):
        ends.register(stream, 0)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in ends.poll(0)):
        said = "a process that it works with has ended"
        return _ended(MeasurementError(said, "Give the same command again."))
    _write_nowhere()
    return typer.Exit(UNREAD)


def _unwritten(error: OSError) -> UsageError:
    _write_nowhere()
    return UsageError(f"Nothing more can be written: {error.strerror}.")


def _ended(error: AutotuneError) -> typer.Exit:
    _complain(error)
    return typer.Exit(error.exit_code)


def _complain(error: AutotuneError) -> None:
    from autotune.cli.console import Console

    console = Console(sys.stderr)
    if isinstance(error, ProgramError) and error.output.strip():
        for line in _told(error.output.strip().splitlines()):
            console.say((line, "quiet"), indent=2)
        console.gap()
    console.say([("Error: ", "bad"), error.message], hang=2)
    if error.advice:
        console.say(error.advice[0].upper() + error.advice[1:], indent=2)


def _told(lines: list[str]) -> list[str]:
    """The end of what a program printed; of a long traceback where it begins, too."""
    begins = max((at for at, line in enumerate(lines) if line == _TRACEBACK), default=len(lines))
    if begins >= len(lines) - _OUTPUT_LINES:
        return lines[-_OUTPUT_LINES:]
    ends = lines[_FIRST_LINES - _OUTPUT_LINES :]
    left = len(lines) - begins - _OUTPUT_LINES
    return [*lines[begins : begins + _FIRST_LINES], f"  … {left} more lines", *ends]
