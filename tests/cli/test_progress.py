import io
from dataclasses import replace

import pytest

from autotune.cli.console import Console
from autotune.cli.progress import Progress
from autotune.profiling.profile import Doubt
from autotune.trials.space import Space
from tests import builders


class Clock:
    """Shows the seconds that it was set to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return io.StringIO()


def words(progress: Progress) -> str:
    return "".join(piece if isinstance(piece, str) else piece[0] for piece in progress.status())


def test_the_live_line_has_the_time_the_best_and_what_is_tried(shown: io.StringIO) -> None:
    clock, trials = Clock(), builders.trials()
    progress = Progress(Console(shown), budget_seconds=120, clock=clock)
    progress.profiled(builders.profile(), builders.findings())
    clock.now = 62.9

    progress.trial_begins(4, {"threads": 1}, 20.0, trials[3])

    assert words(progress).startswith("1:02 ━━━━━━━━━━────────── 0:57 left")
    assert "best 1.67×" in words(progress)
    assert words(progress).endswith("trial 4: threads 1")


def test_time_that_is_used_up_is_not_counted_below_zero(shown: io.StringIO) -> None:
    clock = Clock()
    progress = Progress(Console(shown), budget_seconds=10, clock=clock)
    clock.now = 3725.0

    assert words(progress).startswith("1:02:05 ━━━━━━━━━━━━━━━━━━━━ 0:00 left")


def test_the_program_as_it_is_is_no_best(shown: io.StringIO) -> None:
    progress = Progress(Console(shown), budget_seconds=10)

    progress.trial_begins(1, {}, 5.0, builders.trials()[0])

    assert "best" not in words(progress)


@pytest.mark.parametrize("doubt", ["processors taken", "too few steps", "unstable"])
def test_nothing_is_a_ratio_to_what_a_machine_that_stood_still_gave(
    shown: io.StringIO, doubt: str
) -> None:
    doubts = (Doubt(name=doubt, evidence="", advice=""),)
    progress = Progress(Console(shown), budget_seconds=10)
    progress.profiled(builders.profile(doubts=doubts), builders.findings())
    as_it_is = builders.trial(0, {}, builders.measurement(100.0, doubts=doubts))
    progress.trial_ended(as_it_is, None)
    tried = builders.trial(1, {"threads": 1}, 200.0)
    progress.trial_ended(tried, tried)

    assert ("2.00×" in shown.getvalue()) == (doubt == "unstable")
    assert "200 samples/s" in shown.getvalue()


def test_what_a_trials_doubt_means_is_said_once_below_the_trials(shown: io.StringIO) -> None:
    doubt = Doubt(name="unstable", evidence="Its windows ran at 9 to 20.", advice="Stop others.")
    cold = Doubt(name="sped up", evidence="It sped up.", advice="Measure again.")
    with Progress(Console(shown)) as progress:
        for number, doubts in ((1, (doubt,)), (2, (doubt, cold))):
            doubted = builders.measurement(100.0, doubts=doubts)
            progress.trial_ended(builders.trial(number, {"threads": number}, doubted), None)
        progress.trial_ended(builders.trial(3, {"threads": 3}, 200.0), None)

    lines = shown.getvalue().splitlines()
    assert lines[3:] == [
        "(unstable, trial 1) Its windows ran at 9 to 20.",
        "(sped up, trial 2) It sped up.",
    ]


def test_what_the_result_says_under_not_counted_is_not_said_twice(shown: io.StringIO) -> None:
    outside, other = (
        Doubt(name=name, evidence=f"{name}.", advice="More.")
        for name in ("no validation", "shaken")
    )
    with Progress(Console(shown)) as progress:
        progress.profiled(builders.profile(doubts=(outside,)), builders.findings())
        doubted = builders.measurement(100.0, doubts=(outside, other))
        progress.trial_ended(builders.trial(1, {"threads": 1}, doubted), None)

    assert "no validation" not in shown.getvalue()
    assert "(shaken, trial 1) shaken." in shown.getvalue()


def test_without_a_doubt_nothing_is_explained(shown: io.StringIO) -> None:
    with Progress(Console(shown)) as progress:
        progress.trial_ended(builders.trial(1, {"threads": 1}, 200.0), None)

    assert len(shown.getvalue().splitlines()) == 1


def test_a_stage_is_a_line_where_nothing_is_live(shown: io.StringIO) -> None:
    Progress(Console(shown)).stage("profiling")

    assert shown.getvalue() == "Profiling\n"


def test_an_empty_space_is_said(shown: io.StringIO) -> None:
    Progress(Console(shown)).space(Space(choices={}, own={}, skipped=()))

    assert "Nothing to search: every setting is left out" in shown.getvalue()


def test_where_the_reasons_stand_is_said_of_what_is_not_tried(shown: io.StringIO) -> None:
    space = builders.space()
    Progress(Console(shown)).space(replace(space, skipped=space.skipped[:1]))
    said = " ".join(shown.getvalue().split())
    assert said.endswith("Not tried: 1 other setting; report.html has the reason for each.")

    Progress(Console(shown)).space(replace(space, skipped=()))
    assert shown.getvalue().count("Not tried") == 1


def test_what_only_a_run_can_give_is_said_before_the_trials(shown: io.StringIO) -> None:
    Progress(Console(shown)).unwritable({})
    assert shown.getvalue() == ""
    Progress(Console(shown)).unwritable({"why": ("precision bf16", "compile")})

    said = " ".join(shown.getvalue().split())
    assert said == "Not for a patch, only for `autotune run`: precision bf16, compile (why)."


def test_a_budget_too_small_for_its_starts_is_said_before_the_trials(shown: io.StringIO) -> None:
    progress = Progress(Console(shown), budget_seconds=90)

    progress.overtime(45.0, 25.0, 215.0)

    said = " ".join(shown.getvalue().split())
    assert said == (
        "Profiling the program took 45 s, and each start of it takes 25 s: with the fewest trials "
        "that say anything this takes about 3.6 min, more than its budget of 90 s."
    )


def test_quiet_shows_nothing(shown: io.StringIO) -> None:
    with Progress(Console(shown), quiet=True) as progress:
        progress.stage("profiling")
        progress.profiled(builders.profile(), builders.findings())
        progress.unwritable({"why": ("precision bf16",)})
        progress.space(builders.space())
        progress.trial_ended(builders.trials()[1], None)

    assert shown.getvalue() == ""


def test_an_interrupted_search_says_what_was_best_until_then(shown: io.StringIO) -> None:
    progress = Progress(Console(shown), budget_seconds=120)
    progress.profiled(builders.profile(), builders.findings())
    progress.trial_begins(4, {"threads": 1}, 20.0, builders.trials()[3])

    progress.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    assert "Best so far, not yet judged in turns: 1.67×" in shown.getvalue()
