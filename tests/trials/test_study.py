"""The study asks for what the profile suggests, remembers what came of it, and stops when more does
not pay.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from autotune.errors import UsageError
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure, Measurement
from autotune.profiling.profile import PROCESSORS_TAKEN, Doubt
from autotune.trials.knowledge import planner_for
from autotune.trials.space import SkippedKnob, Space
from autotune.trials.study import Study, storage
from autotune.trials.trial import EXHAUSTED, FINAL, PATIENCE, Trial
from tests import builders

SPACE = Space(
    choices={"num_workers": (0, 1, 2, 4), "threads": (1, 2), "channels_last": (False, True)},
    own={"num_workers": 0, "threads": 2, "channels_last": False},
    skipped=(),
)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.trials.study.study.LOOK_SECONDS", 0.01)


def measured(speed: float) -> Measurement:
    return Measurement(
        samples_per_second=speed,
        interval=(0.95 * speed, 1.05 * speed),
        windows=(),
        seen=builders.seen(),
        startup_seconds=0.1,
        peak_bytes=None,
        losses=(),
    )


def search(study: Study, speed: Callable[[Config], float], limit: int = 100) -> list[Config]:
    """Run the study to its end on a made-up speed; the configurations in the order in which they
    were tried.
    """
    tried: list[Config] = []
    while len(tried) < limit and (asked := study.ask()) is not None:
        number, config = asked
        tried.append(config)
        study.tell(
            Trial(number=number, config=config, outcome=measured(speed(config)), seconds=0.1)
        )
    return tried


def joint(config: Config) -> float:
    """Workers help only where there are few threads, as decoding on two cores does."""
    speed = builders.profile().samples_per_second
    if config.get("num_workers", 0):
        speed *= 1.5 if config.get("threads", 2) == 1 else 0.8
    return (
        speed
        * (1.2 if config.get("channels_last") else 1.0)
        * (0.9 if config.get("threads") == 1 else 1.0)
    )


def study(
    storage: Path | None = None, key: str = "program", space: Space = SPACE, **changes: Any
) -> Study:
    return Study(space, builders.profile(), key=key, storage=storage, **changes)


def test_the_programs_own_setting_is_the_first_trial() -> None:
    assert search(study(), lambda config: 1.0, limit=1) == [{}]


def test_knobs_that_interact_are_moved_together_and_the_best_is_found() -> None:
    searched = study()
    tried = search(searched, joint)
    best = searched.best
    assert best is not None
    assert (
        best.config.get("threads") == 1
        and best.config.get("num_workers")
        and best.config.get("channels_last")
    )
    assert len(tried) == len(
        {tuple(sorted(config.items())) for config in tried}
    )  # nothing is tried twice


def test_the_search_stops_when_nothing_new_is_better() -> None:
    tried = search(study(), lambda config: 100.0 if config else 180.0)
    assert len(tried) < 8 < SPACE.size


def test_a_search_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    first = study(tmp_path / "study.journal")
    tried = search(first, joint, limit=4)
    first.ask()
    first.close()  # interrupted in this one
    second = study(tmp_path / "study.journal")
    assert [dict(trial.config) for trial in second.trials] == tried
    assert second.of_others == second.trials and not first.of_others
    assert second.best is not None and first.best is not None
    assert second.best.config == first.best.config
    more = search(second, joint)
    assert [dict(trial.config) for trial in second.of_others] == tried
    assert all(config not in tried for config in more)


def test_another_program_begins_anew(tmp_path: Path) -> None:
    search(study(tmp_path / "study.journal"), joint, limit=3)
    assert study(tmp_path / "study.journal", key="other").trials == []


def test_a_failed_trial_is_remembered_and_not_repeated() -> None:
    searched = study()
    search(searched, joint, limit=1)
    asked = searched.ask()
    assert asked is not None
    failure = Failure(kind="out_of_memory", reason="no more")
    searched.tell(Trial(number=asked[0], config=asked[1], outcome=failure, seconds=0.1))
    again = planner_for(SPACE, builders.profile()).propose(searched.trials)
    assert again is not None
    assert not asked[1].items() <= again.config.items()


def test_a_storage_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be kept"):
        study(tmp_path / "file" / "study.journal")


def test_what_another_space_of_the_same_program_gave_is_remembered(tmp_path: Path) -> None:
    with study(tmp_path / "study.journal") as first:
        tried = search(first, joint, limit=3)
    narrower = replace(SPACE, choices={"num_workers": (0, 3, 8), "threads": (1, 2)})
    with study(tmp_path / "study.journal", space=narrower) as again:
        assert [dict(trial.config) for trial in again.trials] == tried
        assert [trial.number for trial in again.trials] == [0, 1, 2]
        search(again, joint, limit=1)
    assert len(study(tmp_path / "study.journal").trials) == 4


def test_a_trial_whose_processors_were_taken_is_forgotten(tmp_path: Path) -> None:
    taken = Doubt(name=PROCESSORS_TAKEN, evidence="", advice="")
    with study(tmp_path / "study.journal") as first:
        for doubts in ((), (taken,)):
            asked = first.ask()
            assert asked is not None
            outcome = replace(measured(1.0), doubts=doubts)
            trial = Trial(number=asked[0], config=asked[1], outcome=outcome, seconds=0.1)
            first.tell(trial)
        assert len(first.trials) == 2
    with study(tmp_path / "study.journal") as again:
        assert [each.config for each in again.trials] == [{}]
        tried = search(again, joint, limit=1)
    assert tried == [trial.config]


SMALLER = Space(
    choices={"num_workers": (0, 1), "threads": (1, 2)},
    own={"num_workers": 0, "threads": 2},
    skipped=(SkippedKnob(knob="channels_last", reason="It gains less than noise."),),
    fixed={"channels_last": False},
)


def test_what_a_later_profile_promises_nothing_of_is_still_the_best(tmp_path: Path) -> None:
    with study(tmp_path / "study.journal") as first:
        search(first, joint)
        best = first.best
        assert best is not None and best.config["channels_last"] is True
        tried = {
            each.config["num_workers"] for each in first.trials if "num_workers" in each.config
        }
    with study(tmp_path / "study.journal", space=SMALLER) as again:
        assert again.best is not None and again.best.config == best.config
        assert again.space.choices["channels_last"] == (False, True)
        assert set(again.space.choices["num_workers"]) == {0, 1} | tried
        assert again.space.skipped == () and again.space.fixed == {}
        assert search(again, joint) == [] and again.ending is not None


def test_what_a_later_search_may_not_have_is_not_its_best(tmp_path: Path) -> None:
    with study(tmp_path / "study.journal") as first:
        search(first, joint)
    closed = replace(SMALLER, closed=("channels_last", "num_workers"))
    with study(tmp_path / "study.journal", space=closed) as again:
        assert again.space == closed
        assert all("channels_last" not in each.trial.config for each in again.ranked)
        assert again.best is not None


def test_what_a_search_had_by_the_user_s_word_is_not_others_to_try(tmp_path: Path) -> None:
    forced = replace(SPACE, closed=("channels_last",))
    with study(tmp_path / "study.journal", space=forced) as first:
        search(first, joint)
    with study(tmp_path / "study.journal", space=SMALLER) as again:
        assert "channels_last" not in again.space.choices
        assert set(again.space.choices["num_workers"]) > {0, 1}


def test_names_that_a_knob_does_not_offer_stay_out(tmp_path: Path) -> None:
    names = Space(
        choices={"precision": ("fp32", "fp16", "bf16")}, own={"precision": "fp32"}, skipped=()
    )
    with study(tmp_path / "study.journal", space=names) as first:
        search(first, lambda config: 300.0 if config.get("precision") == "fp16" else 100.0)
    fewer = replace(names, choices={"precision": ("fp32", "bf16")})
    with study(tmp_path / "study.journal", space=fewer) as again:
        assert again.space == fewer
        assert all(each.trial.config != {"precision": "fp16"} for each in again.ranked)


def test_what_may_not_be_handed_back_does_not_end_a_search(tmp_path: Path) -> None:
    def speed(config: Config) -> float:
        return 2000.0 if config.get("num_workers") == 4 else joint(config)

    with study(tmp_path / "study.journal") as first:
        first_tried = search(first, speed, limit=4)
        assert {"num_workers": 4}.items() <= max(first_tried, key=speed).items()
    choices = {**SPACE.choices, "num_workers": (0, 1)}
    closed = replace(SPACE, choices=choices, closed=("num_workers",))
    with study(tmp_path / "study.journal", space=closed) as again:
        assert search(again, speed)
        assert again.best is not None and again.best.config["channels_last"] is True


@pytest.mark.parametrize("kind", ["busy", "no_space"])
def test_a_failure_that_passes_is_forgotten(tmp_path: Path, kind: str) -> None:
    searched = study(tmp_path / "study.journal")
    search(searched, joint, limit=1)
    asked = searched.ask()
    assert asked is not None
    failure = Failure(kind=kind, reason="not now")
    searched.tell(Trial(number=asked[0], config=asked[1], outcome=failure, seconds=0.1))
    searched.close()
    again = study(tmp_path / "study.journal").ask()
    assert again is not None and again[1] == asked[1]


def test_half_a_line_that_a_killed_search_left_is_cut_off(tmp_path: Path) -> None:
    journal = tmp_path / "study.journal"
    with study(journal) as first:
        tried = search(first, joint, limit=2)
    with journal.open("ab") as file:
        file.write(b'{"op_code": 5, "worker_id": "abc')
    with study(journal) as second:
        search(second, joint, limit=1)
    assert [dict(trial.config) for trial in study(journal).trials][:2] == tried
    assert len(study(journal).trials) == 3


def test_a_storage_that_is_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("precious\nthings")
    with pytest.raises(UsageError, match=r"notes\.txt"):
        study(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "precious\nthings"


def test_a_disk_that_fills_up_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = study(tmp_path / "study.journal")
    asked = searched.ask()
    assert asked is not None

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(JournalFileBackend, "append_logs", full)
    trial = Trial(number=asked[0], config=asked[1], outcome=measured(1.0), seconds=0.1)
    with pytest.raises(UsageError, match="No space left"):
        searched.tell(trial)


def test_a_trial_that_others_gave_up_for_dead_is_told_all_the_same() -> None:
    with study() as searched:
        search(searched, joint, limit=1)
        asked = searched.ask()
        assert asked is not None
        searched._study.tell(asked[0], state=TrialState.FAIL)
        searched.tell(Trial(number=asked[0], config=asked[1], outcome=measured(9e9), seconds=0.1))
        assert searched.best is not None and searched.best.number == asked[0]


def test_why_a_search_ended_is_known() -> None:
    with study(patience_seconds=1e-6) as searched:
        tried = search(searched, joint)
        assert tried == [{}]
        assert searched.ending is not None and searched.ending.why == PATIENCE


def test_what_needs_more_than_the_limit_is_kept_with_its_constraint() -> None:
    with study(memory_limit_bytes=1000) as searched:
        search(searched, joint, limit=1)
        asked = searched.ask()
        assert asked is not None
        large = replace(measured(9e9), peak_bytes=1500)
        searched.tell(Trial(number=asked[0], config=asked[1], outcome=large, seconds=0.1))
        kept = searched._study.trials[1]
        assert kept.constraints == {"memory_limit": 500.0}
        assert kept.user_attrs["constraint memory_limit"] == 500.0
        assert searched.best is not None and searched.best.config == {}


def test_what_needs_nobody_knows_how_much_meets_no_limit() -> None:
    with study(memory_limit_bytes=1000) as searched:
        search(searched, joint, limit=1)
        asked = searched.ask()
        assert asked is not None
        searched.tell(Trial(number=asked[0], config=asked[1], outcome=measured(9e9), seconds=0.1))
        own, other = searched._study.trials
        assert not own.constraints and other.constraints == {"memory_unknown": 1.0}
        assert searched.best is not None and searched.best.config == {}


def test_the_energy_of_a_trial_is_kept_with_it(tmp_path: Path) -> None:
    with study(tmp_path / "study.journal") as first:
        asked = first.ask()
        assert asked is not None
        outcome = replace(measured(100.0), joules_per_sample=1.5)
        first.tell(Trial(number=asked[0], config=asked[1], outcome=outcome, seconds=0.1))
    with study(tmp_path / "study.journal") as later:
        (known,) = later.trials
        assert isinstance(known.outcome, Measurement) and known.outcome.joules_per_sample == 1.5


def test_running_out_of_memory_is_a_constraint_too() -> None:
    with study() as searched:
        search(searched, joint, limit=1)
        asked = searched.ask()
        assert asked is not None
        failure = Failure(kind="out_of_memory", reason="no more")
        searched.tell(Trial(number=asked[0], config=asked[1], outcome=failure, seconds=0.1))
        kept = searched._study.trials[1]
        assert (kept.state, kept.constraints) == (TrialState.PRUNED, {"out_of_memory": 1.0})


def test_what_killed_its_search_twice_is_not_tried_a_third_time(tmp_path: Path) -> None:
    journal = tmp_path / "study.journal"
    deadly = []
    for _ in range(3):
        searched = study(journal)
        while (asked := searched.ask()) is not None and not asked[1]:
            outcome = measured(joint({}))
            searched.tell(Trial(number=asked[0], config={}, outcome=outcome, seconds=0.1))
        assert asked is not None
        deadly.append(asked[1])
        searched._kept.close()  # as the kernel does where it is killed
    assert deadly[0] == deadly[1] != deadly[2]


@pytest.mark.parametrize(
    ("kept", "own", "speed"),
    [
        (("processors taken",), (), 500.0),
        (("unstable",), (), 100.0),
        (("too few steps",), ("processors taken",), 100.0),
        ((), (), 100.0),
    ],
)
def test_a_program_that_was_measured_in_a_bad_moment_is_known_by_its_new_measurement(
    tmp_path: Path, kept: tuple[str, ...], own: tuple[str, ...], speed: float
) -> None:
    def doubtful(speed: float, names: tuple[str, ...]) -> Measurement:
        doubts = tuple(Doubt(name=name, evidence="", advice="") for name in names)
        return replace(measured(speed), doubts=doubts)

    place = tmp_path / "study.journal"
    with study(place) as before:
        asked = before.ask()
        assert asked is not None and not asked[1]
        before.tell(Trial(number=asked[0], config={}, outcome=doubtful(100.0, kept), seconds=1.0))
    with study(place, baseline=doubtful(500.0, own)) as again:
        (first,) = again.trials
        assert isinstance(first.outcome, Measurement)
        assert first.outcome.samples_per_second == speed
        if speed == 100.0:
            assert tuple(doubt.name for doubt in first.outcome.doubts) == kept


def told(searched: Study, number: int, config: Config) -> None:
    outcome = measured(joint(config))
    searched.tell(Trial(number=number, config=config, outcome=outcome, seconds=0.1))


def test_the_first_trial_of_another_search_is_waited_for(tmp_path: Path) -> None:
    journal = tmp_path / "study.journal"
    with study(journal) as first, study(journal) as second:
        asked = first.ask()
        assert asked is not None and asked[1] == {}
        assert second.ask() is None
        assert (second.ending, second.awaited) == (None, "another search's first trial")
        told(first, *asked)
        second.await_others(60.0)
        more = second.ask()
        assert more is not None and more[1] and not second.awaited


def test_the_first_trial_of_a_search_that_died_in_it_is_one_s_own(tmp_path: Path) -> None:
    journal = tmp_path / "study.journal"
    dying = [study(journal), study(journal)]
    with study(journal) as living:
        for dead in dying:
            asked = dead.ask()
            assert asked is not None and asked[1] == {}
            assert living.ask() is None and living.awaited
            dead._kept.close()  # as the kernel does where it is killed
            living.await_others(60.0)
        again = living.ask()
        assert again is not None and again[1] == {}


def test_no_search_ends_while_another_tries_what_may_change_that(tmp_path: Path) -> None:
    journal = tmp_path / "study.journal"
    dying = study(journal, patience_seconds=1e9)
    search(dying, joint, limit=1)
    taken = dying.ask()
    with study(journal, patience_seconds=1e9) as living:
        search(living, joint)
        assert (living.ending, living.awaited) == (None, "1 trial of other searches")
        living.await_others(0.0)  # which may take longer than there is time
        assert living.ask() is None and living.awaited
        dying._kept.close()
        living.await_others(60.0)
        again = living.ask()
        assert again is not None and taken is not None and again[1] == taken[1]
        told(living, *again)
        assert living.ask() is None
        assert living.ending is not None and living.ending.why == EXHAUSTED


def test_a_sampler_that_only_repeats_has_not_tried_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with study(patience_seconds=1e9) as searched:
        search(searched, joint, limit=2)
        monkeypatch.setattr(searched, "_propose", lambda _: None)
        monkeypatch.setattr("autotune.trials.study.study.ending", lambda *_: None)
        assert searched.ask() is None
        assert searched.ending is not None and searched.ending.why not in FINAL
        states = [each.state for each in searched._study.trials]
        assert states.count(TrialState.COMPLETE) == 2


def test_whoever_does_not_say_what_it_tries_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    journal = tmp_path / "study.journal"
    dead, living = study(journal), study(journal)
    dead._kept.begin(dead._study)
    monkeypatch.setattr(storage, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    search(living, joint, limit=1)
    assert sum(waited) == pytest.approx(storage.TURN_SECONDS, abs=2 * storage.LOOK_SECONDS)
    waited.clear()
    search(living, joint, limit=1)
    assert not waited


def test_a_fresh_search_goes_on_with_an_interrupted_one_and_others_with_one_that_ended(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "study.journal"
    with study(journal) as plain:
        search(plain, joint, limit=3)
    for trials in (0, 2):  # the first of them is interrupted in its third trial
        with study(journal, fresh=True) as fresh:
            assert len(fresh.trials) == trials
            search(fresh, joint, limit=2)
            if trials:
                fresh.conclude()
        if not trials:
            assert len(study(journal).trials) == 3
    with study(journal, fresh=True) as another:
        assert another.trials == []
    assert len(study(journal).trials) == 4
