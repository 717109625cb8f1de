"""What fails when its epochs are over is not handed back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import judging, later, through
from autotune.flow.context import Options
from autotune.flow.through import seen_through
from autotune.knobs.knob import Config
from autotune.listener import Listener
from autotune.measurement.measurement import Failure
from autotune.measurement.ratios import Ratio
from autotune.measurement.untimed.through import Through
from autotune.outputs.patch import Emission
from autotune.source.edits import EditOutcome, Place
from autotune.source.loops.seldom import Seldom
from autotune.verdict import Verdict
from tests import builders
from tests.flow.test_next_best import AS_IT_IS, BEST, THREADS, context_with, found
from tests.trials.test_study import SPACE

CONFIG: Config = {"precision": "bf16", "channels_last": True, "optimizer": "fused"}
FAILURE = Failure(kind="crashed", reason="RuntimeError: not contiguous")
FASTER = builders.verdict(config=CONFIG, speedup=Ratio(estimate=1.5, low=1.2, high=1.9))
PATCHED = "the patched text"
EMISSION = Emission(
    sources={"/train.py": PATCHED},
    patch="+text",
    edits=(EditOutcome(knob="channels_last", edit="", status="done"),),
)

STAGED = Seldom(
    remainders=frozenset(),
    stages=frozenset({"step == 9"}),
    inner=frozenset(),
    outer=frozenset(),
)


def judged(
    monkeypatch: pytest.MonkeyPatch,
    fails: Callable[[Any], bool],
    *,
    verdict: Verdict = FASTER,
    emission: Emission = EMISSION,
    config: Config = CONFIG,
    ends: Sequence[Any] = (),
    reaches: bool = True,
    losses: int = 0,
    validates: Callable[[Any], float] = lambda which: 0.0,
    between: Callable[[Any], float] = lambda which: 0.0,
    share: float = 0.0,
    own: str = "",
    seldom: Seldom = STAGED,
    not_come_to: tuple[Place, ...] = (),
    trains: bool = True,
    budget_seconds: float = 200.0,
    **seen: Any,
) -> tuple[Verdict, Emission, list[Any]]:
    """The verdict and the emission where a run with a config (None with the program's own), or
    with the text of the patch, `fails`; and of which there were runs, with how many batches and how
    long; none `trains` where that is false. Each `validates` for so many seconds, the program as it
    is for a `share` of its time, and spends so many `between` its epochs. Of a program whose text
    is `own` what it does `seldom` comes sooner: a stage.
    """
    runs: list[Any] = []

    window = replace(builders.window(losses=(1.0,) * losses), not_come_to=not_come_to)

    def run_through(
        start: Any, *, batches: int, seconds: float, steps: int, losses: float
    ) -> Through:
        which = start.keywords["sources"].get("/train.py") or start.args[0]
        runs.append((which, batches, seconds))
        if fails(which):
            return Through(seconds=4.0, failure=FAILURE, steps=9)
        assert steps == (10 if seconds == through.OWN_SECONDS else 0)
        took = validates(which)
        validated = replace(window, validations=10 * bool(took), validation_seconds=10 * took)
        steps_taken = (0.01 + between(which), *[0.01] * 4) * 4
        validated = replace(validated, step_seconds=steps_taken)
        windows = (validated,) if window.losses or took or between(which) else ()
        return Through(
            seconds=4.0,
            ended=which in ends,
            steps=steps * reaches,
            windows=windows,
            seen=builders.seen() if trains else None,
        )

    monkeypatch.setattr(through, "run_through", run_through)
    context: Any = SimpleNamespace(
        listener=Listener(),
        seconds=Options(budget_seconds=budget_seconds).seconds,
        bench=SimpleNamespace(start=lambda *_, **__: None),
        target=SimpleNamespace(path=own and "/train.py"),
    )
    scripts = {"/train.py": SimpleNamespace(text=own)}
    monkeypatch.setattr(through, "whole_program", lambda *_: SimpleNamespace(scripts=scripts))
    monkeypatch.setattr(through, "seldom", lambda _: {"/train.py": seldom})
    profiled = builders.profile(
        seen=replace(builders.seen(), **seen),
        windows=(builders.window(validations=3 * bool(share)),),
        validation_share=share,
    )
    return *seen_through(context, profiled, config, verdict, emission), runs


def test_what_does_not_fail_is_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, emission, runs = judged(monkeypatch, lambda which: False)
    assert verdict.outcome == "faster" and emission is EMISSION
    assert runs == [(PATCHED, 5, 12.0), (None, 5, 12.0)], "the patch has all settings"
    longer = " (a larger budget runs it on for longer)"
    assert f"ran for 4 s and not to its end{longer}" in verdict.through
    verdict, *_ = judged(monkeypatch, lambda which: False, budget_seconds=600.0)
    assert verdict.through.endswith("not to its end"), "no budget gives it more"


@pytest.mark.parametrize(
    ("own", "seen", "how"),
    [
        ("", {}, "with epochs of 5 steps, the tuned"),
        ("pass", {}, "with epochs of 5 steps and what comes late or seldom brought "),
        ("pass", {"loader": None}, "with what comes late or seldom brought forward, the tuned"),
    ],
)
def test_how_it_is_run_further_is_said(
    monkeypatch: pytest.MonkeyPatch, own: str, seen: dict[str, Any], how: str
) -> None:
    verdict, _, _ = judged(monkeypatch, lambda which: False, own=own, **seen)
    assert verdict.through.startswith(how)


def test_a_run_without_a_training_step_is_said_to_show_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdict, _, _ = judged(monkeypatch, lambda which: False, ends=(PATCHED,), trains=False)
    assert verdict.through == (
        "with epochs of 5 steps, the tuned program made no training step: nothing was seen of later"
    )


@pytest.mark.parametrize("same", [True, None, False])
def test_what_trains_otherwise_later_is_not_handed_back(
    monkeypatch: pytest.MonkeyPatch, same: bool | None
) -> None:
    found = builders.parity(same_training=same, steps=50, reason="The losses part by 9 %.")
    monkeypatch.setattr(through, "parity_later", lambda *_: found)
    verdict, emission, _ = judged(monkeypatch, lambda which: False)
    if same is False:
        assert verdict.trains_otherwise and verdict.is_withheld and not verdict.breaks
        assert verdict.suspect == "precision" and emission == Emission()
        assert "1.50×, but with epochs of 5 steps" in verdict.reason
        assert "does not train the same with them: The losses part by 9 %." in verdict.reason
    else:
        assert verdict.outcome == "faster" and emission is EMISSION
        assert ("over 50 steps of that its losses" in verdict.through) is bool(same)


def test_what_the_steps_that_are_compared_did_not_come_to_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(through, "parity_later", lambda *_: builders.parity(same_training=True))
    missed = [("train.py:9", "under `step > 900`")]
    monkeypatch.setattr(later, "not_come_to", lambda _, places: missed if places else [])
    place = Place(path="/train.py", line=9)
    for places in ((), (place,)):
        verdict, _, _ = judged(
            monkeypatch, lambda which: False, losses=60, own="pass", not_come_to=places
        )
        assert verdict.through.endswith(
            "within noise; these steps of the program as it is did not reach train.py:9 (under "
            "`step > 900`): what the settings do there was not seen"
        ) is bool(places)
        assert verdict.not_reached == (("train.py:9",) if places else ())


@pytest.mark.parametrize(
    ("seconds", "share", "whole"),
    [(0.2, 0.6, 1 / (0.4 / 1.5 + 1.2)), (0.2, 0.2, 1 / (0.8 / 1.5 + 0.4)), (0.2, 0.0, 1.5)],
)
def test_validations_that_came_only_when_epochs_were_short_are_counted_in(
    monkeypatch: pytest.MonkeyPatch, seconds: float, share: float, whole: float
) -> None:
    monkeypatch.setattr(through, "parity_later", lambda *_: builders.parity(same_training=True))

    def took(which: Any) -> float:
        return seconds if which == PATCHED else 0.1

    verdict, emission, _ = judged(monkeypatch, lambda which: False, validates=took, share=share)
    found = verdict.validations
    assert found and found.short and found.whole == pytest.approx(whole)
    if whole < 1:
        assert verdict.slows and verdict.is_withheld and emission == Emission()
        assert verdict.suspect == "channels_last"
        assert "a validation of a few batches takes 0.2 s with them, and 0.1 s" in verdict.reason
        assert "counted in, as often as when it was profiled, it is" in verdict.reason
    else:
        assert verdict.outcome == "faster" and emission is EMISSION


def test_validations_that_are_too_short_to_be_timed_say_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(through, "parity_later", lambda *_: builders.parity(same_training=True))

    def took(which: Any) -> float:  # ten times
        return 0.02 if which == PATCHED else 0.01

    verdict, _, _ = judged(monkeypatch, lambda which: False, validates=took, share=0.6)
    assert verdict.outcome == "faster" and verdict.validations is None


def test_what_goes_by_between_epochs_is_counted_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(through, "parity_later", lambda *_: builders.parity(same_training=True))
    monkeypatch.setattr(through, "steps_of_an_epoch", lambda _: 10)

    def took(which: Any) -> float:
        return 2.0 if which == PATCHED else 1.0

    verdict, emission, _ = judged(monkeypatch, lambda which: False, between=took)
    assert verdict.slows and verdict.is_withheld and emission == Emission()
    assert "now and then between its steps takes 2 s with them" in verdict.reason


@pytest.mark.parametrize(("losses", "batches"), [(15, 20), (60, 5)])
def test_one_that_ends_with_few_losses_is_compared_over_longer_epochs(
    monkeypatch: pytest.MonkeyPatch, losses: int, batches: int
) -> None:
    found = builders.parity(same_training=True, steps=60)
    monkeypatch.setattr(through, "parity_later", lambda *_: found)
    verdict, _, runs = judged(monkeypatch, lambda which: False, ends=[PATCHED], losses=losses)
    again = [(PATCHED, batches, 12.0)] if batches > 5 else []
    assert runs == [(PATCHED, 5, 12.0), *again, (None, batches, 12.0)]
    assert ("over 60 steps of a longer run its losses" in verdict.through) is (batches > 5)


@pytest.mark.parametrize(
    ("seen", "how"),
    [
        ({}, "with its epochs cut short, the program does not"),
        ({"loader": None}, "with what comes late or seldom brought forward, the program does not"),
    ],
)
def test_only_what_has_epochs_has_them_cut_short(
    monkeypatch: pytest.MonkeyPatch, seen: dict[str, Any], how: str
) -> None:
    parted = builders.parity(same_training=False, steps=60)
    monkeypatch.setattr(through, "parity_later", lambda *_: parted)
    ends = [PATCHED]
    verdict, *_ = judged(monkeypatch, lambda which: False, ends=ends, losses=15, own="pass", **seen)
    assert how in verdict.reason


def test_where_longer_epochs_fail_the_short_ones_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(through, "parity_later", lambda *_: builders.parity(same_training=True))
    tried: list[Any] = []

    def fails(which: Any) -> bool:
        tried.append(which)
        return tried == [PATCHED, PATCHED]

    verdict, _, runs = judged(monkeypatch, fails, ends=[PATCHED], losses=15)
    assert [batches for _, batches, _ in runs] == [5, 20, 5]
    assert verdict.outcome == "faster" and "of that its losses" in verdict.through


def test_of_what_is_not_known_to_train_the_same_no_more_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = replace(FASTER, parity=builders.parity(same_training=None))
    verdict, _, runs = judged(monkeypatch, lambda which: False, verdict=unknown)
    assert verdict.outcome == "faster" and [which for which, _, _ in runs] == [PATCHED]


def test_what_fails_is_not_and_the_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(which: Any) -> bool:
        return which == PATCHED or "channels_last" in (which or ())

    verdict, emission, runs = judged(monkeypatch, fails)
    assert verdict.outcome == "no_gain" and verdict.breaks and verdict.is_withheld
    assert not verdict.trains_otherwise and not verdict.config
    assert verdict.suspect == "channels_last" and emission == Emission()
    assert "channels_last on, optimizer fused) came out 1.50×, but the program" in verdict.reason
    assert "As it is it was not seen to fail, nor without channels_last." in verdict.reason
    assert FAILURE.reason in verdict.reason
    assert (None, 5, through.OWN_SECONDS) in runs, "as it is it has to come further"


def test_where_no_one_setting_is_to_blame_all_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _, _ = judged(monkeypatch, lambda which: which is not None)
    assert verdict.breaks and verdict.suspect == "precision"
    assert (
        "(precision bf16, channels_last on, optimizer fused) came out 1.50×, but the program"
        in verdict.reason
    )


def test_a_program_that_fails_by_itself_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, emission, runs = judged(monkeypatch, lambda which: True)
    assert verdict.outcome == "faster" and emission is EMISSION
    assert [which for which, _, _ in runs] == [PATCHED, None]
    assert "the program fails as it is too (RuntimeError: not contiguous)" in verdict.through


def test_stages_begin_sooner_where_the_program_takes_that(monkeypatch: pytest.MonkeyPatch) -> None:
    own, tuned = "if step == 9: thaw()", "if step == 9: thaw()  # tuned"
    sooner = "if step == (2 if step == 2 else 9): thaw()"
    emission = replace(EMISSION, sources={"/train.py": tuned})

    def ran(fails: Callable[[Any], bool]) -> tuple[Verdict, list[Any]]:
        verdict, _, runs = judged(monkeypatch, fails, emission=emission, own=own)
        return verdict, [which for which, _, _ in runs]

    verdict, runs = ran(lambda which: which.startswith(sooner))
    assert runs == [f"{sooner}  # tuned", sooner, tuned, own]
    assert verdict.outcome == "faster" and "not to its end" in verdict.through
    verdict, runs = ran(lambda which: which == f"{sooner}  # tuned")
    assert verdict.breaks and tuned not in runs
    verdict, _ = ran(lambda which: True)
    assert verdict.outcome == "faster" and "the program fails as it is" in verdict.through


def test_epochs_are_as_many_as_they_are_where_the_program_counts_on_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = "for epoch in range(args.epochs): train()\nplot(range(args.epochs), losses)"
    head = frozenset({": epoch in range(args.epochs)"})
    cut = Seldom(remainders=frozenset(), inner=frozenset(), outer=head)
    emission = replace(EMISSION, sources={"/train.py": own})
    verdict, _, runs = judged(
        monkeypatch, lambda which: which != own, emission=emission, own=own, seldom=cut
    )
    assert verdict.outcome == "faster" and "not to its end" in verdict.through
    first, as_it_is, again, compared = (which for which, _, _ in runs)
    assert first == as_it_is != own == again == compared


@pytest.mark.parametrize("patch_fails", [False, True])
def test_a_part_of_the_settings_is_run_beside_all_of_them(
    monkeypatch: pytest.MonkeyPatch, patch_fails: bool
) -> None:
    left_out = EditOutcome(knob="optimizer", edit="", status="refused", reason="no place")
    part = replace(EMISSION, edits=(*EMISSION.edits, left_out))
    verdict, emission, runs = judged(
        monkeypatch, lambda which: patch_fails and which == PATCHED, emission=part
    )
    assert [which for which, _, _ in runs] == [CONFIG, None, PATCHED, *[None] * patch_fails]
    assert verdict.outcome == "faster" and bool(emission.sources) != patch_fails
    if patch_fails:
        assert "fails later on: RuntimeError: not contiguous" in emission.refused[0].reason


def test_workers_that_keep_it_from_its_end_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    config: Config = {"num_workers": 2, "persistent_workers": True}

    def answer(ends: Sequence[Any]) -> tuple[Verdict, list[Any]]:
        verdict, _, runs = judged(monkeypatch, lambda _: False, config=config, ends=ends)
        return verdict, [(which, seconds) for which, _, seconds in runs][:3]

    starts = through.EPOCHS * 2 * through.WORKER_SECONDS
    longer = through.TO_THE_END * 4.0 + through.TO_THE_END_SECONDS + starts
    verdict, runs = answer([None, {"num_workers": 2}])
    assert runs == [(PATCHED, 12.0), (None, 12.0), (PATCHED, longer)]
    assert verdict.breaks and verdict.suspect == "persistent_workers"
    assert "the program fails later" in verdict.reason and "come to its end" in verdict.reason
    assert "nor without persistent_workers." in verdict.reason
    verdict, _ = answer([None])
    assert verdict.breaks and verdict.suspect == "num_workers"
    assert "without" not in verdict.reason, "it came to no end without one of them either"
    verdict, runs = answer([])
    assert verdict.outcome == "faster" and len(runs) == 2, "neither ends in time"
    verdict, runs = answer([PATCHED])
    assert verdict.outcome == "faster" and runs == [(PATCHED, 12.0), (None, 12.0)]
    assert "ran to its end" in verdict.through


def test_where_the_program_as_it_is_does_not_come_as_far_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdict, _, _ = judged(monkeypatch, lambda which: which == PATCHED, reaches=False)
    assert verdict.outcome == "faster"
    assert "as it is did not get as far in 60 s, so that it may fail there too" in verdict.through


def test_what_is_not_handed_back_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    no_gain = builders.verdict(outcome="no_gain")
    verdict, _, runs = judged(monkeypatch, lambda which: True, verdict=no_gain)
    assert verdict is no_gain and not runs


def test_what_has_nothing_that_could_come_sooner_is_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdict, _, runs = judged(monkeypatch, lambda which: True, loader=None)
    assert verdict is FASTER and not runs


def test_batches_that_are_added_up_to_a_step_are_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, runs = judged(monkeypatch, lambda which: False, backwards_per_step=3.9)
    assert runs == [(PATCHED, 20, 12.0), (None, 20, 12.0)]


def test_the_next_best_is_judged_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    breaks = replace(builders.verdict(outcome="no_gain", suspect="precision"), breaks=True)

    def judged(_context: Any, _profiled: Any, trial: Any) -> tuple[Verdict, Any]:
        if "precision" in trial.config:
            return breaks, "nothing"
        return builders.verdict(config=dict(trial.config)), "its source"

    monkeypatch.setattr(judging, "_judged", judged)
    monkeypatch.setattr(judging.time, "monotonic", lambda: 0.0)
    tried = found(AS_IT_IS, BEST, THREADS)
    verdict, source = judging.judge(context_with(100.0), builders.profile(), SPACE, tried)
    assert verdict.config == THREADS.config and source == "its source"
    assert verdict.suspect == "precision" and breaks.reason in verdict.passed_over
