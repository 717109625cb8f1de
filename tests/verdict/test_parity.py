"""The same training passes and another one does not, on real small trainings."""

import math
import random

import pytest
import torch
from torch import nn

from autotune.knobs.knob import Semantics
from autotune.measurement.interleaved.turns import LOSSES_WANTED
from autotune.verdict.chance import explained_by_seeds
from autotune.verdict.courses import smooth
from autotune.verdict.parity import parity
from autotune.workload.steps.pace import LOSSES_READ

STEPS = 200
EQUIVALENT = Semantics.EQUIVALENT


def blobs(samples=1600, classes=10, width=64):
    """Points about ten centres: learnt well within 200 steps, not in one."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(classes, width, generator=generator)
    targets = torch.randint(0, classes, (samples,), generator=generator)
    return centres[targets] + 1.5 * torch.randn(samples, width, generator=generator), targets


def train(
    *, seed=0, rate=1e-3, batch=32, stream=0, dropout=0.2, rounding=0.0, steps=STEPS, skipped=0
):
    """Losses of a small classifier; `stream` is another random stream for dropout and rounding. The
    first `skipped` steps are left out.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    inputs, targets = blobs()
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    order = torch.Generator().manual_seed(seed)
    rows = torch.cat([torch.randperm(len(inputs), generator=order) for _ in range(8)])
    torch.manual_seed(1000 + stream)
    losses = []
    for step in range(steps):
        picked = rows[step * batch : (step + 1) * batch]
        scores = model(inputs[picked])
        scores = scores * (1 + rounding * torch.randn_like(scores))
        loss = nn.functional.cross_entropy(scores, targets[picked])
        optimizer.zero_grad()
        loss.backward()
        if step >= skipped:
            optimizer.step()
        losses.append(loss.item())
    torch.set_num_threads(threads)
    return losses


@pytest.fixture(scope="module")
def baseline():
    return train()


def test_the_same_numbers_are_the_same_training(baseline):
    found = parity(baseline, list(baseline), Semantics.IDENTICAL)
    assert found.same_training is True
    assert found.max_relative_loss_difference == 0
    assert found.steps == STEPS
    assert found.reason == ""


@pytest.mark.parametrize("stream", range(1, 6))
def test_another_dropout_stream_is_the_same_training(baseline, stream):
    found = parity(baseline, train(stream=stream), EQUIVALENT)
    assert found.same_training is True, found.reason
    assert 0 < found.max_relative_loss_difference <= found.band


def test_coarse_rounding_is_the_same_training():
    exact = train(dropout=0.0)
    assert parity(exact, train(dropout=0.0, rounding=4e-3), EQUIVALENT).same_training is True


@pytest.mark.parametrize("times", [1 / 3, 1.5, 3])
def test_another_learning_rate_is_another_training(baseline, times):
    found = parity(baseline, train(stream=1, rate=1e-3 * times), EQUIVALENT)
    assert found.same_training is False
    assert "part by" in found.reason
    assert found.max_relative_loss_difference > found.band


@pytest.mark.parametrize("steps", [40, STEPS])
@pytest.mark.parametrize("skipped", [3, 5])
def test_a_course_may_be_late_by_the_steps_that_a_scaler_left_out(baseline, skipped, steps):
    late = train(stream=1, skipped=skipped)[:steps]
    assert parity(baseline[:steps], late, EQUIVALENT).same_training is False
    assert parity(baseline[:steps], late, EQUIVALENT, late=skipped).same_training is True
    slower = train(stream=1, skipped=skipped, rate=0.6e-3)[:steps]
    assert parity(baseline[:steps], slower, EQUIVALENT, late=skipped).same_training is False


@pytest.mark.parametrize("batch", [16, 64])
def test_another_batch_size_is_another_training(baseline, batch):
    assert parity(baseline, train(stream=1, batch=batch), EQUIVALENT).same_training is False


def test_another_batch_size_shows_in_the_scatter_alone():
    chance = random.Random(0)
    first = [1 + chance.gauss(0, 0.2) for _ in range(STEPS)]
    second = [1 + chance.gauss(0, 0.2 * math.sqrt(2)) for _ in range(STEPS)]
    found = parity(first, second, EQUIVALENT)
    assert found.same_training is False
    assert found.max_relative_loss_difference <= found.band
    assert "scatters" in found.reason


def test_a_plateau_is_judged_by_what_was_learnt():
    # Both have learnt 2 % of the loss; one of them three times as fast.
    slow = [2.3 - 0.0002 * step for step in range(STEPS)]
    fast = [2.3 - 0.0006 * step for step in range(STEPS)]
    assert parity(slow, fast, EQUIVALENT).same_training is False


def test_differences_near_zero_loss_are_relative_to_where_it_began():
    first = [2.3 * math.exp(-step / 20) + 1e-6 for step in range(STEPS)]
    second = [each + 0.001 for each in first]
    assert parity(first, second, EQUIVALENT).same_training is True


def test_settings_that_promise_the_same_numbers_are_held_to_it(baseline):
    nearly = [baseline[0], baseline[1] * 1.001, *baseline[2:]]
    found = parity(baseline, nearly, Semantics.IDENTICAL)
    assert found.same_training is False
    assert "Step 2" in found.reason
    assert parity(baseline, nearly, EQUIVALENT).same_training is True


def test_a_program_whose_random_numbers_differ_in_each_run_has_no_same_numbers(baseline):
    other, third = train(stream=1), train(stream=2)
    assert parity(baseline, other, Semantics.IDENTICAL).same_training is False
    assert parity(baseline, other, Semantics.IDENTICAL, controls=[third]).same_training is True
    alike = [each * (1 + 1e-7) for each in baseline]
    assert parity(baseline, other, Semantics.IDENTICAL, controls=[alike]).same_training is False


@pytest.mark.parametrize(("step", "same"), [(1, True), (3, True), (4, False)])
def test_random_numbers_may_differ_from_a_later_step_on(baseline, step, same):
    others = [baseline[:3] + train(stream=stream)[3:] for stream in (1, 2)]
    others[0][2] *= 1.001  # with the settings step 3 is the first that differs
    others[1][step - 1] *= 1.001  # and this, when the program is run again
    found = parity(baseline, others[0], Semantics.IDENTICAL, controls=[others[1]])
    assert found.same_training is same


def test_where_no_control_came_to_where_the_losses_part_it_is_not_shown_to_be_the_same(baseline):
    nearly = [baseline[0], baseline[1] * 1.001, *baseline[2:]]
    for controls, unseen in (([[]], True), ([baseline[:1]], True), ([baseline[:2]], False)):
        found = parity(baseline, nearly, Semantics.IDENTICAL, controls=controls)
        assert found.same_training is False
        assert ("was not seen" in found.reason) is unseen


def test_of_losses_that_rounding_alone_takes_as_far_nothing_is_said():
    chance = random.Random(0)
    first = [2.3 * math.exp(-step / 80) + chance.gauss(0, 0.1) for step in range(STEPS)]
    bumped = [each + (0.3 if 100 <= step < 140 else 0) for step, each in enumerate(first)]
    nudged = [each - (0.2 if 80 <= step < 130 else 0) for step, each in enumerate(first)]
    assert parity(first, bumped, EQUIVALENT).same_training is False
    told = parity(first, bumped, EQUIVALENT, controls=[first, nudged])
    assert told.same_training is None
    assert "Chance alone" in told.reason
    assert parity(first, bumped, EQUIVALENT, controls=[first]).same_training is False
    unseen = parity(first, bumped, EQUIVALENT, controls=[nudged[:90]])
    assert unseen.same_training is False
    assert "was not seen" in unseen.reason
    assert parity(first, bumped, EQUIVALENT, controls=[nudged[:150]]).same_training is None
    assert parity(first, bumped, EQUIVALENT, controls=[first[:150]]).same_training is False
    far = [each + (0.9 if step >= 100 else 0) for step, each in enumerate(first)]
    assert parity(first, far, EQUIVALENT, controls=[nudged]).same_training is False


def seeds_of(count, **settings):
    """Losses of the small classifier and of the same with settings, with other seeds."""
    seeds = range(1, count + 1)
    own = {"steps": settings["steps"]}
    return [(train(seed=seed, **own), train(seed=seed, stream=1, **settings)) for seed in seeds]


@pytest.mark.parametrize("settings", [{"rate": 0.8e-3}, {"skipped": 10}], ids=str)
def test_settings_that_train_otherwise_with_any_seed_are_another_training(baseline, settings):
    tuned = train(stream=1, steps=100, **settings)
    pairs = seeds_of(2, steps=100, **settings)
    found = parity(baseline, tuned, EQUIVALENT, controls=[baseline], pairs=pairs)
    assert found.same_training is False
    assert "seed" not in found.reason


def test_of_losses_that_another_seed_takes_as_far_nothing_is_said():
    chance = random.Random(0)
    first = [2.3 * math.exp(-step / 80) + chance.gauss(0, 0.05) for step in range(STEPS)]

    def course(seed, by):
        """From some step on it goes another way."""
        begun = [first[0] + 0.01 * seed, *first[1:]]
        return [each + (by if step > 60 + 20 * seed else 0) for step, each in enumerate(begun)]

    tuned, own = course(0, 0.3), course(1, 0.4)
    for again, same in ((course(1, 0.1), None), (course(1, 0.4), None), (course(1, 0.7), False)):
        pairs = [(own, again), (own, again)]
        told = parity(first, tuned, EQUIVALENT, controls=[first], pairs=pairs)
        assert told.same_training is same, told.reason
        assert ("another seed" in told.reason) is (same is None)
    wide = [(course(1, 3.0), course(1, 3.3))] * 2  # what a seed does is ten times as much
    assert parity(first, tuned, EQUIVALENT, controls=[first], pairs=wide).same_training is None
    near = [(course(1, 0.2), course(1, 0.1))]  # no other seed goes as far
    assert parity(first, tuned, EQUIVALENT, controls=[first], pairs=near).same_training is False
    lost = [(own, [*own[:50], math.nan, *own[51:]])]
    assert parity(first, tuned, EQUIVALENT, controls=[first], pairs=lost).same_training is False


def lies(by, steps=STEPS):
    """Losses that fall, so much higher."""
    return [2.3 * math.exp(-step / 80) + by for step in range(steps)]


@pytest.mark.parametrize("other", [[], [1.0] * 10, [1.0] * 19 + [math.nan] * 181], ids=len)
def test_a_seed_with_which_a_run_came_to_nothing_says_nothing(other):
    first, tuned, wide = (
        lies(0.0),
        lies(0.3),
        (lies(0.5), lies(0.8)),
    )  # a seed goes as far, the settings as before
    said = [explained_by_seeds(first, tuned, [wide] * count) for count in (1, 2)]
    for pair in ((other, other), (other, wide[1])):
        assert explained_by_seeds(first, tuned, [wide, pair]) == said[0]
        assert explained_by_seeds(first, tuned, [wide, wide, pair]) == said[1]
    if all(map(math.isfinite, other)):
        assert explained_by_seeds(first, tuned, [wide, (wide[0], other)]) == said[0]


@pytest.mark.parametrize("far", [0.0, 0.01, 0.5, 3.0])
def test_one_seed_alone_says_nothing(far):
    first, tuned = lies(0.0), lies(0.3)
    for again in (far, far + 0.3):
        pair = (lies(far), lies(again))
        assert explained_by_seeds(first, tuned, [pair]) is None
        told = parity(first, tuned, EQUIVALENT, controls=[first], pairs=[pair])
        assert told.same_training is False
        assert "was not seen" in told.reason


def test_settings_that_go_now_one_way_now_another_are_not_called_another_training():
    first, tuned = lies(0.0), lies(0.3)
    up, down = (lies(0.1), lies(0.4)), (lies(0.1), lies(-0.2))  # no seed goes as far
    for pairs, same in (([up, up, up], False), ([up, down, up], None), ([down, up, down], None)):
        found = parity(first, tuned, EQUIVALENT, controls=[first], pairs=pairs)
        assert found.same_training is same
        assert ("the same way again" in found.reason) is (same is None)
    found = parity(first, tuned, EQUIVALENT, controls=[first], pairs=[down])
    assert found.same_training is False and "was not seen" in found.reason


def test_a_seed_that_does_nothing_says_nothing():
    first, tuned = lies(0.0), lies(0.3)
    same, broken = (first, tuned), (first, [*tuned[:90], math.nan, *tuned[91:]])
    assert explained_by_seeds(first, tuned, [same] * 3) is None
    assert explained_by_seeds(first, tuned, [broken] * 3) is None


def test_what_is_little_is_so_beside_several_seeds_in_the_steps_that_all_have():
    first, tuned = lies(0.0), lies(0.3)
    wide, wider, near = ((lies(by), lies(by + 0.3)) for by in (3.0, 4.0, 0.5))
    assert explained_by_seeds(first, tuned, [wide, wider]) is True
    assert explained_by_seeds(first, tuned, [wide, near]) is None
    assert explained_by_seeds(first, tuned, [wide, near, near]) is None
    sooner = tuple(each[:60] for each in near)  # it ended while losses were higher by 1
    assert explained_by_seeds(first, tuned, [sooner, sooner]) is False


def test_too_few_steps_say_nothing(baseline):
    found = parity(baseline, baseline[:19], EQUIVALENT)
    assert found.same_training is None
    assert "19 steps are too few" in found.reason
    assert found.steps == len(found.baseline_losses) == len(found.tuned_losses) == 19
    assert parity([], [], EQUIVALENT).same_training is None


def test_a_loss_that_is_lost_is_another_training(baseline):
    broken = [*baseline[:50], math.nan, *baseline[51:]]
    assert parity(baseline, broken, EQUIVALENT).same_training is False
    assert parity(broken, baseline, EQUIVALENT).same_training is None


def test_a_training_that_was_allowed_to_differ_is_not_judged(baseline):
    found = parity(baseline, train(rate=1.0), Semantics.DIFFERENT)
    assert found.same_training is None and found.is_another
    assert "allowed" in found.reason
    assert not (found.steps or found.baseline_losses or found.tuned_losses)
    assert parity(baseline, [math.nan] * 50, Semantics.DIFFERENT).same_training is False


def test_constant_losses_are_the_same_training():
    assert parity([0.0] * 30, [0.0] * 30, EQUIVALENT).same_training is True


def test_smoothing_keeps_the_mean_of_every_window():
    assert smooth([1, 2, 3, 4], 2) == (1.5, 2.5, 3.5)
    assert smooth([1, 2], 3) == ()


def test_losses_of_which_not_all_are_read_are_not_paired_but_are_to_be_numbers():
    assert LOSSES_READ >= LOSSES_WANTED
    curve = [2 * math.exp(-step / 50) + 0.1 * math.sin(7 * step) for step in range(300)]
    apart = [*curve[:LOSSES_WANTED], *(5.0 for _ in range(100))]
    found = parity(curve, apart, Semantics.EQUIVALENT)
    assert found.same_training is True and found.steps == LOSSES_WANTED
    assert parity(curve, [*curve, math.nan], Semantics.EQUIVALENT).same_training is False


def test_what_chance_does_in_a_steep_beginning_is_not_held_against_what_settings_do_later():
    first = [0.2 + 2.1 * math.exp(-step / 20) for step in range(STEPS)]

    def course(early, later):
        return [each + (early if step < 50 else later) for step, each in enumerate(first)]

    tuned, chance = course(0.01, 0.06), course(0.06, 0.005)
    assert parity(first, tuned, EQUIVALENT, controls=[chance]).same_training is False
    late = course(0.01, 0.04)
    assert parity(first, tuned, EQUIVALENT, controls=[late]).same_training is None
    ways = [(course(0.3, 0.01), course(0.3 + by, 0.07)) for by in (-0.1, 0.1)]
    assert explained_by_seeds(first, tuned, ways) is False
