"""What gained nothing in the trials is left out of the best of them."""

from dataclasses import replace
from typing import Any

from autotune.flow.gainless import without_gainless
from autotune.profiling.profile import PROCESSORS_TAKEN, Doubt
from autotune.trials.trial import Trial
from tests import builders

PLAIN: dict[str, Any] = {"precision": "bf16", "optimizer": "fused"}
KEPT = {**PLAIN, "keep_freed_memory": True}
FREED = {**PLAIN, "set_to_none": True}
BOTH = {**KEPT, "set_to_none": True}


def trials(*rates: tuple[dict[str, Any], float]) -> list[Trial]:
    return [builders.trial(number, *each) for number, each in enumerate(rates)]


# As they were measured: the best by turns was 2, by chance.
HEADS = trials(
    *(({}, 7243.0), (BOTH, 9803.0), (FREED, 11383.0), (PLAIN, 10345.0)),
    *((KEPT, 12126.0), ({**PLAIN, "optimizer": "foreach"}, 7966.0)),
)


def test_a_setting_with_which_trials_were_no_faster_is_left_out() -> None:
    assert without_gainless(HEADS[2], HEADS) == (HEADS[3], ("set_to_none",))


def test_one_pair_of_trials_is_too_few_to_tell() -> None:
    few = [HEADS[0], HEADS[2], replace(HEADS[3], outcome=HEADS[2].outcome)]
    assert without_gainless(few[1], few) == (few[1], ())


def test_a_setting_that_gained_stays() -> None:
    found = trials(({}, 100.0), (BOTH, 130.0), (FREED, 110.0), (PLAIN, 100.0), (KEPT, 121.0))
    assert without_gainless(found[2], found) == (found[2], ())


def test_what_it_gains_without_the_others_of_the_best_does_not_count() -> None:
    last, alone = {"channels_last": True}, {"threads": 1}
    bf16 = {"precision": "bf16"}
    found = trials(
        *(({}, 100.0), (last, 80.0), (bf16, 110.0), (last | bf16, 121.0)),
        *((alone, 100.0), (alone | last, 80.0)),
    )
    assert without_gainless(found[3], found) == (found[3], ())


def test_what_was_beaten_in_turns_is_not_what_is_left() -> None:
    assert without_gainless(HEADS[2], HEADS, HEADS[3]) == (HEADS[2], ())


def test_a_trial_in_a_disturbed_moment_tells_nothing() -> None:
    doubt = Doubt(name=PROCESSORS_TAKEN, evidence="", advice="")
    both = replace(HEADS[1], outcome=builders.measurement(9803.0, doubts=(doubt,)))
    shaken = [HEADS[0], both, *HEADS[2:]]
    assert without_gainless(HEADS[2], shaken) == (HEADS[2], ())


def test_all_that_gained_nothing_goes() -> None:
    configs = (BOTH, FREED, KEPT, PLAIN, {**BOTH, "threads": 1}, {**KEPT, "threads": 1})
    found = trials(*((each, 100.0) for each in configs))
    best, left_out = without_gainless(found[0], found)
    assert best is found[3] and {*left_out} == {"set_to_none", "keep_freed_memory"}


def test_the_program_as_it_is_is_left_to_the_verdict() -> None:
    freed, threads = {"set_to_none": True}, {"threads": 1}
    found = trials(({}, 100.0), (freed, 90.0), (threads, 100.0), (freed | threads, 90.0))
    assert without_gainless(found[1], found) == (found[1], ())
