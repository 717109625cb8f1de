"""Where the best is another training, the next best without what makes it so is judged."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import Options, judging
from autotune.flow.context import Context
from autotune.flow.next_best import PARTING, next_best, suspect
from autotune.flow.trying import Found
from autotune.knobs import KNOBS
from autotune.knobs.knob import Semantics
from autotune.measurement.ratios import Ratio
from autotune.trials.trial import NOTHING, Ending, Trial
from autotune.verdict import Verdict
from tests import builders

AS_IT_IS = builders.trial(0, {}, 100.0)
BEST = builders.trial(1, {"precision": "bf16", "optimizer": "fused"}, 250.0)
SHORT = builders.trial(2, {"precision": "bf16"}, 200.0)
THREADS = builders.trial(3, {"threads": 1, "optimizer": "fused"}, 150.0)
SLOWER = builders.trial(4, {"threads": 1}, 90.0)
OPTIMIZER = builders.trial(5, {"optimizer": "fused"}, 90.0)

SPACE = replace(
    builders.space(),
    choices={
        "precision": ("fp32", "bf16"),
        "optimizer": ("forloop", "fused"),
        "threads": (1, 2),
    },
)


def found(*trials: Trial, ranked: tuple[Trial, ...] | None = None) -> Found:
    return Found(
        trials=trials,
        best=BEST,
        ending=Ending(why=NOTHING, reason=""),
        ranked=trials if ranked is None else ranked,
    )


GAIN = Ratio(estimate=2.0, low=1.9, high=2.1)
OTHERWISE = builders.verdict(
    outcome="no_gain", config={}, speedup=GAIN, parity=builders.parity(same_training=False)
)


@pytest.mark.parametrize(
    ("best", "trials", "config"),
    [
        (BEST, (AS_IT_IS, BEST, SHORT, THREADS), THREADS.config),
        (BEST, (AS_IT_IS, BEST, SHORT, SLOWER), {"optimizer": "fused"}),
        (BEST, (AS_IT_IS, BEST, OPTIMIZER), None),
        (SHORT, (AS_IT_IS, SHORT), None),
    ],
    ids=["the fastest other", "what is left", "tried and slower", "nothing is left"],
)
def test_the_next_best_lacks_what_is_likeliest_to_part_the_losses(
    best: Trial, trials: tuple[Trial, ...], config: Any
) -> None:
    other = next_best(best, suspect(best.config), found(*trials), SPACE, builders.seen())
    assert (other.config if other else None) == config


OWN = builders.losses(100)
PARTED = builders.parity(
    100,
    same_training=False,
    baseline_losses=OWN,
    tuned_losses=tuple(loss * (1 + max(0, step - 40) / 50) for step, loss in enumerate(OWN)),
)


@pytest.mark.parametrize(
    ("losses", "named"),
    [
        (OWN, "num_workers"),
        (OWN[:90], "num_workers"),
        (OWN[:40], "precision"),  # in so few steps those of the best do not part either
        (PARTED.tuned_losses, "precision"),
        ((), "precision"),
    ],
)
def test_a_setting_with_which_a_trial_trained_the_same_is_not_suspect(
    losses: tuple[float, ...], named: str
) -> None:
    short = builders.trial(2, SHORT.config, builders.measurement(200.0, losses=losses))
    both = {"precision": "bf16", "num_workers": 2}
    assert suspect(both, PARTED, [short]) == named
    assert suspect({**both, "precision": "fp16"}, PARTED, [short]) == "precision"
    assert suspect(SHORT.config, PARTED, [short]) == "precision"
    assert suspect(both) == "precision"


def test_what_the_trials_show_says_without_what_it_is_searched_on(monkeypatch: Any) -> None:
    both = builders.trial(1, {"precision": "bf16", "num_workers": 2}, 250.0)
    short = builders.trial(2, SHORT.config, builders.measurement(200.0, losses=OWN))
    otherwise = replace(OTHERWISE, parity=PARTED)
    monkeypatch.setattr(judging.time, "monotonic", lambda: 0.0)
    tried = replace(found(AS_IT_IS, both, short), best=both)
    again = replace(otherwise, outcome="faster", config=SHORT.config)

    def judged(_context: Any, _profiled: Any, trial: Trial) -> tuple[Verdict, Any]:
        return (otherwise if trial.config == both.config else again), "its source"

    monkeypatch.setattr(judging, "_judged", judged)
    verdict, _ = judging.judge(context_with(100.0), builders.profile(), SPACE, tried)
    assert verdict.suspect == "num_workers" and verdict.config == SHORT.config


def test_what_this_search_may_not_hand_back_is_no_next_best() -> None:
    too_large = found(AS_IT_IS, BEST, THREADS, ranked=(BEST, AS_IT_IS))
    given = BEST, "precision", too_large
    assert next_best(*given, SPACE, builders.seen()) == builders.trial(
        1, {"optimizer": "fused"}, 250.0
    )
    assert next_best(*given, replace(SPACE, choices={}), builders.seen()) is None


def test_what_was_seen_to_be_another_training_goes_first(monkeypatch: Any) -> None:
    judged: list[Any] = []

    def judge(_context: Any, _profiled: Any, trial: Trial) -> tuple[Verdict, Any]:
        judged.append(trial.config)
        return replace(OTHERWISE, suspect="optimizer"), "nothing"

    monkeypatch.setattr(judging, "_judged", judge)
    monkeypatch.setattr(judging.time, "monotonic", lambda: 0.0)
    given = context_with(100.0), builders.profile(), SPACE, found(AS_IT_IS, BEST)
    verdict, _ = judging.judge(*given)
    assert judged == [BEST.config, {"precision": "bf16"}]
    assert verdict.reason.endswith("(precision bf16) does not train the same either.")


def context_with(left_seconds: float, **options: Any) -> Context:
    """Of a budget of 300 s, as it is where the clock shows 0."""
    given: dict[str, Any] = dict.fromkeys(("target", "listener", "machine", "bench"))
    given |= {"began": left_seconds - 300.0, "device": SimpleNamespace(waited_seconds=0.0)}
    return Context(options=Options(budget_seconds=300.0, **options), **given)


@pytest.mark.parametrize(
    ("left_seconds", "startup_seconds", "second", "config"),
    [
        (100.0, 60.0, "faster", THREADS.config),
        (100.0, 60.0, "no_gain", {}),
        (100.0, 60.0, "open", {}),
        (-50.0, 10.0, "faster", THREADS.config),
        (-50.0, 60.0, "faster", {}),
    ],
    ids=["it is faster", "it is not", "that is open", "beyond the budget", "no time is left"],
)
def test_it_is_handed_back_where_it_is_faster_and_the_same_training(
    monkeypatch: Any, left_seconds: float, startup_seconds: float, second: str, config: Any
) -> None:
    def judged(context: Context, _profiled: Any, trial: Trial) -> tuple[Verdict, Any]:
        if "precision" in trial.config:
            return OTHERWISE, "nothing"
        assert context.deadline == max(left_seconds, judging.AGAIN_SHARE * 300.0)
        if second == "open":
            speedup = Ratio(estimate=1.2, low=0.9, high=1.6, confidence=0.98)
            return builders.verdict(outcome="no_gain", speedup=speedup), "its source"
        return builders.verdict(outcome=second, config=dict(trial.config)), "its source"

    monkeypatch.setattr(judging, "_judged", judged)
    monkeypatch.setattr(judging.time, "monotonic", lambda: 0.0)
    tried = found(AS_IT_IS, BEST, THREADS)
    profiled = builders.profile(startup_seconds=startup_seconds)
    verdict, source = judging.judge(context_with(left_seconds), profiled, SPACE, tried)
    assert verdict.config == config
    assert source == ("its source" if config else "nothing")
    expected = f"precision bf16, optimizer fused: {OTHERWISE.reason}" if config else ""
    assert verdict.passed_over == expected
    if second in ("no_gain", "open"):
        came = {"no_gain": "2.12×", "open": "1.20×"}[second]
        assert (
            verdict.reason
            == f"{OTHERWISE.reason} The next best (threads 1, optimizer fused) came out {came}."
        )
    goes_on = config or left_seconds < 0 or second == "open"
    assert verdict.suspect == ("precision" if goes_on else "")


@pytest.mark.parametrize("limited", [False, True])
def test_what_was_not_tried_is_not_judged_where_memory_is_limited(
    monkeypatch: Any, limited: bool
) -> None:
    judged: list[Any] = []

    def judge(_context: Any, _profiled: Any, trial: Trial) -> tuple[Verdict, Any]:
        judged.append(trial.config)
        return OTHERWISE, "nothing"

    monkeypatch.setattr(judging, "_judged", judge)
    monkeypatch.setattr(judging.time, "monotonic", lambda: 0.0)
    limit = {"memory_limit_bytes": builders.GIB} if limited else {}
    context = context_with(100.0, **limit)
    verdict, _ = judging.judge(context, builders.profile(), SPACE, found(AS_IT_IS, BEST))
    assert judged == [BEST.config, *[{"optimizer": "fused"}] * (not limited)]
    assert verdict.suspect == ("precision" if limited else "")


def test_whatever_may_change_a_training_is_suspected_of_it() -> None:
    assert set(PARTING) == {
        knob.name for knob in KNOBS if knob.semantics is not Semantics.IDENTICAL
    }
