"""What a run tells while it goes: one live line, and one line that stays for each trial."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Self

from autotune.cli.console import Console, Line, Piece
from autotune.cli.profile_screen import show_cautions
from autotune.diagnosis import Finding
from autotune.knobs.knob import Config
from autotune.listener import Listener
from autotune.measurement.measurement import Failure
from autotune.outputs import wording
from autotune.outputs.document import to_document
from autotune.profiling.profile import ROUNDED_PREDICTIONS, SHAKEN, Doubt, Profile
from autotune.result import Result
from autotune.trials.space import Space
from autotune.trials.trial import Trial

_BAR = 20
_NARROW = 60  # columns below which the live line has no room for its bar


class Progress(Listener):
    """Shows a run on a console while it goes; a context manager.

    Args:
        console: where it is shown.
        budget_seconds: the time for all of it; None where it is not counted down.
        quiet: show nothing.
        reasons: what has the reasons why settings are not tried.
        clock: seconds from any moment on.
    """

    def __init__(
        self,
        console: Console,
        *,
        budget_seconds: float | None = None,
        quiet: bool = False,
        reasons: str = "report.html",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._budget_seconds = budget_seconds
        self._quiet = quiet
        self._reasons = reasons
        self._clock = clock
        self._began = clock()
        self._doing = ""
        self._stages: set[str] = set()  # that were said where no live line does
        self._baseline: float | None = None
        self._best: Trial | None = None
        self._doubts: dict[str, tuple[Doubt, int]] = {}  # each kind's first, and of which trial
        self._left_out: set[str] = set()  # those that the result's "Not counted" says
        self._live = ExitStack()

    def __enter__(self) -> Self:
        if not self._quiet:
            self._live.enter_context(self._console.live(self.status))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._live.close()
        self._explain_doubts()
        best = self._best
        if kind is KeyboardInterrupt and best is not None and best.config:
            assert not isinstance(best.outcome, Failure)
            ratio = self._ratio(best.outcome.samples_per_second)
            self._console.say(
                f"Best so far, not yet judged in turns: {ratio} {wording.settings(best.config)}"
            )

    def stage(self, name: str) -> None:
        """Say what begins, where no live line does."""
        self._doing = name
        if not self._console.is_live and name not in self._stages:
            self._stages.add(name)
            self._say((f"{name[:1].upper()}{name[1:]}", "quiet"))

    def note(self, words: str) -> None:
        """Say what stays on the screen."""
        self._say(words)

    def profiled(self, profile: Profile, diagnosis: tuple[Finding, ...]) -> None:
        """Say what holds the program back, as soon as it is known."""
        shaken = any(profile.doubt(name) for name in SHAKEN)
        self._baseline = None if shaken else profile.samples_per_second
        self._left_out = {name for name in wording.OUTSIDE if profile.doubt(name)}
        if self._budget_seconds is not None and not self._quiet:  # a profile's screen begins so
            show_cautions(self._console, profile)
            self._say([(diagnosis[0].headline, "strong")])

    def unwritable(self, settings: Mapping[str, Sequence[str]]) -> None:
        """Say what no patch can give, but `autotune run`."""
        if settings:
            said = "; ".join(f"{', '.join(each)} ({why})" for why, each in settings.items())
            self._say(f"Not for a patch, only for `autotune run`: {said}.")

    def space(self, space: Space) -> None:
        """Say what is searched."""
        for each in space.skipped:
            if each.refused:
                self._say(f"{each.knob}: {each.reason}.")
        left_out = sum(each.knob not in space.choices for each in space.skipped)
        why = f"{self._reasons} has the reason for each"
        if not space.choices:
            self._say(f"Nothing to search: every setting is left out; {why}.")
            return
        self._say(
            f"Searching {', '.join(space.choices)}: {wording.counted(space.size, 'configuration')}."
            + f" Not tried: {wording.counted(left_out, 'other setting')}; {why}." * bool(left_out)
        )
        if not self._quiet:
            self._console.gap()

    def overtime(self, spent_seconds: float, start_seconds: float, least_seconds: float) -> None:
        """Say how long it will take, where that is more than was given."""
        self._say(
            f"Profiling the program took {wording.duration(spent_seconds)}, and each start of it "
            f"takes {wording.duration(start_seconds)}: with the fewest trials that say anything "
            f"this takes about {wording.duration(least_seconds)}, more than its budget of "
            f"{wording.duration(self._budget_seconds)}."
        )

    def trial_begins(
        self,
        number: int,
        config: Config,
        seconds_left: float,  # noqa: ARG002  # of the trials; the live line has those of the whole
        best: Trial | None,
    ) -> None:
        """Show on the live line what is tried."""
        self._best = best
        self._doing = f"trial {number}: {wording.settings(config)}"

    def trial_ended(self, trial: Trial, best: Trial | None) -> None:
        """One line that stays."""
        is_best = best is not None and best.number == trial.number and bool(trial.config)
        self._best = best
        if self._quiet:
            return
        outcome = trial.outcome
        settings = wording.settings(trial.config)
        if isinstance(outcome, Failure):
            words = outcome.kind.replace("_", " ")
            rest: Line = [settings, (f": {outcome.reason}", "quiet")]
            self._trial(trial.number, (words, "warn"), "", rest)
            return
        if not trial.config:  # nothing is a ratio to what a machine that stood still gave
            self._baseline = None if outcome.is_shaken else outcome.samples_per_second
        tone = "good" if is_best else "plain"
        rate = wording.rate(outcome.samples_per_second)
        ratio = self._ratio(outcome.samples_per_second) if trial.config else ""
        elsewhere = {*self._left_out, ROUNDED_PREDICTIONS}  # with what is handed back
        told = [doubt for doubt in outcome.doubts if doubt.name not in elsewhere]
        for doubt in told:
            self._doubts.setdefault(doubt.name, (doubt, trial.number))
        doubts = ", ".join(doubt.name for doubt in told)
        noted: list[Piece] = [settings, (f" ({doubts})" if doubts else "", "quiet")]
        self._trial(trial.number, (rate, tone), (ratio, tone), noted)

    def status(self) -> Line:
        """The live line as of now."""
        elapsed = self._clock() - self._began
        line: list[Piece] = [_clock_text(elapsed)]
        if self._budget_seconds is not None:
            if self._console.width >= _NARROW:
                share = elapsed / self._budget_seconds
                line += [" ", *self._console.progress_bar(share, _BAR)]
            line.append(f" {_clock_text(max(self._budget_seconds - elapsed, 0.0))} left")
        if (
            self._best is not None
            and self._best.config
            and not isinstance(self._best.outcome, Failure)
        ):
            ratio = self._ratio(self._best.outcome.samples_per_second)
            line += [("  best ", "quiet"), (ratio, "good")]
        return [*line, (f"  {self._doing}", "quiet")]

    def _trial(self, number: int, what: Piece, ratio: Piece, rest: Line) -> None:
        widths = (3, 15, 6)  # the same for every line, though each is shown when it is known
        cells: list[Line] = []
        for piece, width in zip((str(number), what, ratio), widths, strict=True):
            words, tone = (piece, "quiet") if isinstance(piece, str) else piece
            cells.append((words.rjust(width) if not cells else words.ljust(width), tone))
        self._console.rows([[*cells, rest]], indent=0)

    def _explain_doubts(self) -> None:
        """What the words behind a trial's settings mean."""
        for doubt, number in self._doubts.values():
            self._say([(f"({doubt.name}, trial {number}) ", "quiet"), doubt.evidence])

    def _ratio(self, samples_per_second: float) -> str:
        return wording.ratio(samples_per_second / self._baseline) if self._baseline else ""

    def _say(self, line: Line) -> None:
        if not self._quiet:
            self._console.say(line)


def console_for(as_json: bool) -> Console:
    """Where a run is shown: on stderr, where stdout is for its document."""
    return Console(sys.stderr if as_json else sys.stdout)


def print_document(result: Result) -> None:
    """`result` on stdout, as one JSON document on one line."""
    print(json.dumps(to_document(result), allow_nan=False), flush=True)


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
