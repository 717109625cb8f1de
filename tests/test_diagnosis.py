"""What a profile is said to be held back by, on programs of each kind."""

from dataclasses import replace

import pytest

from autotune.diagnosis import Bottleneck, diagnose
from autotune.diagnosis.validation import steps_of_an_epoch
from autotune.profiling.ceilings import to_give_back
from autotune.profiling.profile import Ceiling
from autotune.source.edits import Place, Places
from autotune.workload.found import BusyLine, Denormals, Operations
from autotune.workload.seen import SeenLoader
from tests import builders

GIB = builders.GIB
HEALTHY = {"data": 0.02, "forward": 0.31, "backward": 0.55, "optimizer": 0.07, "other": 0.05}


def ceiling(name, gain, rate=None):
    rate = None if gain is None else (rate or 180.4 * gain)
    return Ceiling(name=name, samples_per_second=rate, max_gain=gain)


def ceilings(*, compute=None, host=None, data=None):
    return (ceiling("compute", compute), ceiling("host", host), ceiling("data", data))


def profile(**changes):
    return builders.profile(**{"windows": ()} | changes)


def first(**changes):
    return diagnose(profile(**changes))[0]


def by_name(**changes):
    return {finding.bottleneck: finding for finding in diagnose(profile(**changes))}


def loader(**changes):
    given = {field: getattr(builders.seen().loader, field) for field in SeenLoader.__slots__}
    return builders.seen(loader=SeenLoader(**given | changes))


def workers(count):
    return loader(num_workers=count)


def test_a_program_that_waits_for_data_hears_how_much_and_what_it_could_gain():
    found = first()
    assert found.bottleneck == Bottleneck.DATA
    assert found.severity == "critical"
    assert found.max_gain == 3.39
    assert found.headline == (
        "Waits for data 71 % of each step; loading faster can gain up to 3.39×."
    )


@pytest.mark.parametrize(
    ("share", "times", "named"), [(0.79, 12, True), (0.79, 2, False), (0.2, 12, False)]
)
def test_a_program_that_validates_most_of_the_time_hears_so_first(share, times, named):
    windows = (builders.window(180.0, validations=times - 1), builders.window(180.0, validations=1))
    found = first(validation_share=share, phases=HEALTHY, windows=windows)
    assert (found.bottleneck == Bottleneck.VALIDATION) is named
    if named:
        assert found.headline == (
            "Validates 79 % of the time; without that it can gain up to 4.76×."
        )
        assert "12 validations" in found.evidence
        assert "A pass over the data without gradients counts as one, " in found.evidence


def test_what_a_program_without_a_loader_does_between_steps_need_not_be_a_validation():
    seen = replace(builders.seen(), loader=None, loaders_at=())
    windows = (builders.window(180.0, validations=12),)
    found = first(validation_share=0.63, phases=HEALTHY, windows=windows, seen=seen)
    assert found.bottleneck == Bottleneck.VALIDATION and found.max_gain is None
    assert found.headline.startswith("Is between its training steps 63 % of the time: it calls")


@pytest.mark.parametrize(
    ("lines", "said"), [((9, 41), True), ((9,), False), ((9, 41, 43), False), ((41,), False)]
)
def test_where_the_one_other_loader_is_built_is_told(lines, said):
    training, *built = (Place(path="/p/train.py", line=line) for line in (9, *lines))
    seen = builders.seen()
    places = replace(seen.places, loader=training if 9 in lines else None)
    seen = replace(seen, places=places, loaders_at=tuple(built))
    window = builders.window(180.0, validations=12)
    found = first(validation_share=0.79, phases=HEALTHY, windows=(window,), seen=seen)
    assert found.bottleneck == Bottleneck.VALIDATION
    assert ("other loader (train.py:41) is searched" in found.evidence) is said
    assert ("what the model generates" in found.evidence) is (lines == (9,))


@pytest.mark.parametrize(("length", "named"), [(100, True), (10_000, False), (None, False)])
def test_a_single_validation_is_held_against_the_length_of_an_epoch(length, named):
    seen = builders.seen()
    loader = replace(seen.loader, length=length, dataset_length=None, batch_size=32)
    seen = replace(seen, loader=loader, samples_per_step=64.0, backwards_per_step=40.0)
    window = builders.window(180.0, validations=1, validation_seconds=15.0)
    found = first(
        validation_share=0.9, phases=HEALTHY, windows=(window,), seen=seen, step_seconds=0.1
    )
    assert (found.bottleneck == Bottleneck.VALIDATION) is named
    if named:  # 15 s beside 50 steps of 0.1 s
        assert "Validates 75 % of the time, supposing one an epoch" in found.headline


def test_a_model_that_counts_other_samples_has_epochs_as_long_as_its_loader():
    """Of 40 batches of 4 molecules, each of a thousand points that the model is given."""
    seen = builders.seen()
    loader = replace(seen.loader, length=40, dataset_length=160, batch_size=4)
    seen = replace(seen, loader=loader, samples_per_step=900.0, backwards_per_step=1.0)
    window = builders.window(180.0, validations=1, validation_seconds=0.45)
    found = first(phases=HEALTHY, windows=(window,), seen=seen, step_seconds=0.04)
    assert found.bottleneck != Bottleneck.VALIDATION, "22 % of 40 steps"


def test_two_validations_tell_how_often_they_come():
    """At most as many steps lie between them as were seen: 11 of 0.1 s, beside 1.5 s."""
    seen = builders.seen()
    seen = replace(seen, loader=replace(seen.loader, length=96, dataset_length=None))
    windows = tuple(
        builders.window(180.0, steps=steps, validations=1, validation_seconds=1.5)
        for steps in (5, 6)
    )
    found = first(
        validation_share=0.8, phases=HEALTHY, windows=windows, seen=seen, step_seconds=0.1
    )
    assert "Validates 58 % of the time, at least every 11 steps" in found.headline


@pytest.mark.parametrize(
    ("busy", "count", "words"),
    [
        (0.97, 0, "with no workers, keeps 1.0 of 2 cores busy. "),
        (0.02, 0, "uses 0.02 of a core: it waits itself, for slow reads, say"),
        (0.45, 1, "with 1 worker, uses 0.45 of a core: it works and waits by turns"),
        (1.2, 4, "with 4 workers, keeps 1.2 of 2 cores busy. "),
        (1.95, 4, "with 4 workers, keeps all 2 cores busy"),
        (None, 0, "was not measured"),
    ],
)
def test_it_says_whether_the_loader_works_or_waits(busy, count, words):
    assert words in first(data_processor_share=busy, seen=workers(count)).evidence


def test_one_of_several_loaders_says_nothing_of_what_loading_could_gain():
    given = to_give_back(ceilings(data=156.0), HEALTHY, [], loader(beside=1), on_device=False)
    (compute,) = diagnose(profile(phases=HEALTHY, ceilings=given, seen=loader(beside=1)))
    assert "156" not in compute.evidence
    assert given[2].reason == "a step draws from several loaders, of which one was drained alone"


def test_workers_that_slow_the_rest_of_a_step_are_why_more_can_be_gained_than_is_waited_for():
    phases = {"data": 0.44, "forward": 0.3, "backward": 0.21, "other": 0.05}
    found = {
        count: first(phases=phases, ceilings=ceilings(compute=gain), seen=workers(count))
        for count, gain in ((2, 46.0), (1, 1.9), (0, 46.0))
    }
    assert found[2].headline == (
        "Waits for data 44 % of each step, and workers slow the rest; "
        "loading faster can gain up to 46.0×."
    )
    assert "processors" not in found[1].headline + found[0].headline


def test_waiting_for_a_thread_of_the_program_is_waiting_for_data():
    # No window has it: only what goes away in a replay tells.
    found = first(
        seen=loader(threaded=True), windows=2 * (builders.window(phases={"forward": 0.5}),)
    )
    assert found.bottleneck == Bottleneck.DATA
    assert "A thread of the program's own draws them" in found.evidence


def test_it_says_what_loader_and_training_can_do_alone():
    evidence = first().evidence
    assert (
        "The loader alone delivers 252 samples/s, training alone takes 612 samples/s." in evidence
    )


def test_the_gain_of_loading_leaves_copies_where_they_are():
    assert first(ceilings=ceilings(compute=4.0, host=2.5)).max_gain == 2.5


def test_without_ceilings_the_share_bounds_the_gain():
    assert first(ceilings=ceilings()).max_gain == pytest.approx(1 / 0.29)


@pytest.mark.parametrize(
    ("share", "severity"), [(0.09, None), (0.11, "warning"), (0.19, "warning"), (0.21, "critical")]
)
def test_waiting_is_worth_a_warning_from_a_tenth_of_the_step(share, severity):
    phases = {"data": share, "forward": 0.95 - share, "other": 0.05}
    found = by_name(phases=phases, ceilings=ceilings()).get(Bottleneck.DATA)
    assert (found.severity if found else None) == severity


def test_a_share_that_may_be_chance_is_not_named():
    shares = (0.0, 0.5, 0.0, 0.1)
    seen = tuple(
        builders.window(180.0, seconds=1.0, phases={"data": share, "forward": 1 - share})
        for share in shares
    )
    phases = {"data": 0.15, "forward": 0.85}
    assert Bottleneck.DATA in by_name(phases=phases, ceilings=ceilings())
    assert Bottleneck.DATA not in by_name(phases=phases, ceilings=ceilings(), windows=seen)


def test_a_wait_that_costs_nothing_is_no_warning():
    phases = {"data": 0.15, "forward": 0.8, "other": 0.05}
    found = diagnose(profile(phases=phases, ceilings=ceilings(compute=1.01)))
    assert [each.bottleneck for each in found] == [Bottleneck.COMPUTE, Bottleneck.DATA]
    assert {each.severity for each in found} == {"info"}
    assert "can gain 1 % at most" in found[1].headline


def test_a_healthy_program_hears_that_it_computes():
    (found,) = diagnose(profile(phases=HEALTHY, ceilings=ceilings(compute=1.02, data=8.1)))
    assert found.bottleneck == Bottleneck.COMPUTE
    assert found.severity == "info"
    assert found.headline == "Computes 93 % of each step; its data arrives in time."
    assert found.evidence.endswith("The loader alone delivers 8.10× what training takes.")
    assert found.evidence.startswith("Forward 31 %, backward 55 %, optimizer 7 %; 1.4 of 2 cores")
    assert found.max_gain is None


def test_what_a_loader_without_workers_costs_is_what_it_can_give_back():
    phases = {"data": 0.34, "forward": 0.3, "backward": 0.3, "other": 0.06}
    for workers, words in ((0, "up to 1.52×"), (2, "up to 2.60×")):
        seen = loader(num_workers=workers, threaded=False)
        window = builders.window(180.4, seconds=1.0, worker_cpu_seconds=0.6 * (workers > 0))
        given = to_give_back(ceilings(compute=2.6), phases, [window], seen, on_device=False)
        found = diagnose(profile(phases=phases, ceilings=given, seen=seen))[0]
        assert found.max_gain == given[0].max_gain
        assert words in found.headline
        assert "2.60" not in found.evidence, "one figure for one bound"


@pytest.mark.parametrize(
    ("busy", "on_device", "gain"), [(0.03, False, 1.04), (0.2, False, 1.24), (0.03, True, 1.24)]
)
def test_workers_give_back_no_more_than_the_wait_for_them_and_their_processor_time(
    busy: float, on_device: bool, gain: float
) -> None:
    phases, window = {"data": 0.01}, builders.window(seconds=2.0, worker_cpu_seconds=2 * busy)
    timed = ceilings(compute=1.24, data=22.0)
    given = to_give_back(timed, phases, [window], workers(8), on_device=on_device)
    assert given[0].max_gain == pytest.approx(gain, abs=0.005)
    bounded = gain < 1.2
    rate = window.samples_per_second if bounded else 180.4
    assert given[0].samples_per_second == pytest.approx(gain * rate, rel=0.005)
    assert given[1:] == timed[1:]


def test_a_gpu_that_is_left_idle_is_named():
    said = [finding.headline for finding in diagnose(profile(idle_gpu="NVIDIA H200"))]
    assert any("; NVIDIA H200 is not used." in headline for headline in said)


def test_data_that_is_waited_for_does_not_arrive_in_time():
    phases = {"data": 0.3, "forward": 0.3, "backward": 0.35, "other": 0.05}
    found = by_name(phases=phases, ceilings=ceilings(compute=1.4, data=3.0))[Bottleneck.COMPUTE]
    assert found.headline == "Computes 65 % of each step."


def test_computing_has_no_most_that_it_could_gain():
    phases = {"data": 0.01, "forward": 0.5, "backward": 0.49}
    for loader_gain in (None, 1.4, 111.0):
        found = by_name(phases=phases, ceilings=ceilings(compute=1.01, data=loader_gain))
        assert found[Bottleneck.COMPUTE].max_gain is None


def test_what_would_gain_nothing_is_not_said_to_gain():
    phases = {"data": 0.15, "forward": 0.8, "other": 0.05}
    found = by_name(phases=phases, ceilings=ceilings(compute=0.81))[Bottleneck.DATA]
    assert found.headline.endswith("with batches always at hand it was not timed faster.")


def test_a_program_without_a_loader_that_prepares_its_batches_slowly_hears_so():
    phases = {"forward": 0.2, "backward": 0.3, "optimizer": 0.04, "other": 0.46}
    found = first(phases=phases, ceilings=ceilings(), seen=builders.seen(loader=None))
    assert found.bottleneck == Bottleneck.HOST
    assert found.headline == (
        "Prepares batches or runs other code of its own 46 % of each step; "
        "without that it can gain up to 1.85×."
    )


def test_time_that_no_phase_accounts_for_is_said_plainly():
    phases = {"data": 0.02, "forward": 0.4, "backward": 0.2, "other": 0.38}
    found = first(phases=phases, ceilings=ceilings())
    assert found.bottleneck == Bottleneck.HOST
    assert found.headline.startswith("Runs other code of its own 38 % of each step")


def test_a_loss_that_is_a_function_is_no_bottleneck_where_the_host_computes():
    phases = {"data": 0.02, "forward": 0.4, "backward": 0.46, "other": 0.12}
    assert first(phases=phases, ceilings=ceilings()).bottleneck == Bottleneck.COMPUTE
    own = builders.seen(loader=None)  # it prepares its batches in that time
    assert by_name(phases=phases, ceilings=ceilings())[Bottleneck.COMPUTE]
    assert Bottleneck.HOST in by_name(phases=phases, ceilings=ceilings(), seen=own)


def test_a_model_that_is_called_without_gradients_in_every_step_is_not_called_logging():
    phases = {"data": 0.02, "forward": 0.4, "backward": 0.2, "other": 0.38}
    window = builders.window(10.0, seconds=1.0, gradless_seconds=0.3)
    found = first(phases=phases, ceilings=ceilings(), windows=(window,))
    assert found.headline.startswith("Acts or evaluates without gradients 30 % of each step")
    assert found.max_gain == pytest.approx(1 / 0.7)
    little = replace(window, gradless_seconds=0.1)
    found = first(phases=phases, ceilings=ceilings(), windows=(little,))
    assert found.headline.startswith("Runs other code of its own 38 %")


def test_a_wait_for_the_step_before_is_no_gain_of_evaluating_less():
    # The host reads a number back right after it has evaluated: 70 % of its step, of which the GPU
    # was at the step for all but 12 %.
    phases = {"data": 0.01, "forward": 0.32, "backward": 0.55, "other": 0.12}
    window = builders.window(10.0, seconds=1.0, gradless_seconds=0.7)
    found = by_name(phases=phases, ceilings=ceilings(), windows=(window,))[Bottleneck.HOST]
    assert found.headline.startswith("Acts or evaluates without gradients 12 % of each step")
    assert found.max_gain == pytest.approx(1 / 0.88)


def test_copies_are_named_with_the_memory_that_they_come_from():
    phases = {"copy": 0.3, "forward": 0.3, "backward": 0.35, "other": 0.05}
    found = first(phases=phases, ceilings=ceilings(compute=1.4))
    assert found.bottleneck == Bottleneck.COPY
    assert found.max_gain == 1.4
    assert "Each batch of 1.6 MB is copied from pageable memory" in found.evidence
    assert "30 % of each step" in found.headline


def test_a_costly_optimizer_is_named_before_the_overhead_that_it_causes():
    phases = {"data": 0.05, "forward": 0.2, "backward": 0.25, "optimizer": 0.45, "other": 0.05}
    found = diagnose(profile(phases=phases, step_seconds=0.002, ceilings=ceilings(compute=1.05)))
    assert [each.bottleneck for each in found[:1]] == [Bottleneck.OPTIMIZER]
    assert found[0].headline == (
        "Updates weights 45 % of each step; a faster optimizer step can gain up to 1.82×."
    )
    assert found[0].evidence == "SGD (as torch runs it unasked) updates 272,474 parameters."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "MySGD"}, "MySGD updates"),
        ({"name": "MySGD", "takes_foreach": False, "takes_fused": False}, "MySGD updates"),
        (
            {"name": "SparseAdam", "takes_foreach": False, "takes_fused": False},
            "SparseAdam updates",
        ),
        ({"name": "Adam"}, "Adam (as torch runs it unasked) updates"),
        ({"name": "Adam", "foreach": False}, "Adam (forloop) updates"),
        ({"name": "MySGD", "foreach": True}, "MySGD (foreach) updates"),
    ],
)
def test_only_torchs_optimizers_have_an_implementation_that_torch_chooses(given, said):
    seen = builders.seen(optimizer=replace(builders.seen().optimizer, **given))
    found = diagnose(profile(phases={"optimizer": 0.5, "forward": 0.5}, seen=seen))
    assert any(each.evidence.startswith(said) for each in found), found


def test_parameters_are_counted_for_the_optimizer_that_updates_them():
    sparse = {"name": "SparseAdam", "takes_foreach": False, "takes_fused": False}
    one = builders.seen().optimizer
    seen = builders.seen(
        optimizer=replace(one, parameters=3_000, **sparse),
        beside=(replace(one, parameters=200, name="Adam"), replace(one, parameters=4, name="Adam")),
    )
    found = diagnose(profile(phases={"optimizer": 0.5, "forward": 0.5}, seen=seen))
    said = "SparseAdam updates 3,000 parameters, Adam (as torch runs it unasked) 204."
    assert any(each.evidence.startswith(said) for each in found), found


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "40 % in load (data.py:7)"),
        (((7, 0.35), (9, 0.05)), "40 % in load (data.py:7)"),
        (((7, 0.22), (9, 0.18)), "40 % in load (22 % at data.py:7)"),
    ],
)
def test_a_line_stands_for_its_function_where_it_takes_most_of_it(lines, said):
    busy = BusyLine(
        phase="data", path="/p/data.py", line=7, function="load", share=0.4, lines=lines
    )
    found = first(phases={"data": 0.5, "forward": 0.5}, lines=(busy,))
    assert said in found.headline


def test_parameters_that_never_had_a_gradient_are_not_called_updated():
    seen = builders.seen(optimizer=replace(builders.seen().optimizer, updated=1_500))
    found = diagnose(profile(phases={"optimizer": 0.5, "forward": 0.5}, seen=seen))
    assert any("updates 1,500 parameters." in each.evidence for each in found), found


def tiny(parameters):
    (model,) = builders.seen().models
    given = {field: getattr(model, field) for field in model.__slots__}
    return builders.seen(models=(type(model)(**given | {"parameters": parameters}),))


def test_many_small_operations_are_told_however_long_the_step():
    place = Place(path="/a/model.py", line=47)
    counted = Operations(per_step=60_000, place=place, function="score", share=0.7)
    given = {"phases": HEALTHY, "step_seconds": 0.126, "ceilings": ceilings(), "probes": {}}
    found = first(**given, operations=counted)
    assert found.bottleneck == "overhead"
    assert found.headline == (
        "Takes 126 ms a step: 60,000 small operations, much of whose time is spent on starting "
        "them, most of them in score (model.py:47)."
    )
    spread = first(**given, operations=replace(counted, share=0.3))
    assert spread.headline.endswith("is spent on starting them.")
    short, long, unknown = (
        first(**given, operations=counted and replace(counted, per_step=per_step))
        for counted, per_step in ((counted, 9_000), (counted, 900), (None, 0))
    )
    assert [each.bottleneck for each in (short, long, unknown)] == ["compute"] * 3
    assert ", in 9,000 operations of some 13 µs" in short.headline
    assert not any("operations" in each.headline for each in (long, unknown))


@pytest.mark.parametrize(("faster", "said"), [(1.36, True), (1.1, False), (0.7, False)])
def test_threads_that_wait_for_one_another_are_told(faster, said):
    found = first(
        phases=HEALTHY,
        step_seconds=0.00087,
        seen=tiny(2_410),
        ceilings=ceilings(),
        probes={"one_thread": faster},
    )
    assert ("One thread computes it 1.36× as fast." in found.evidence) is said


@pytest.mark.parametrize(
    ("gain", "severity"), [(2.8, "critical"), (1.15, "warning"), (1.05, None), (0.7, None)]
)
def test_threads_of_numpy_that_hold_torch_up_come_first(gain, severity):
    phases = {"data": 0.27, "forward": 0.45, "backward": 0.28}
    found = diagnose(
        profile(
            phases=phases,
            seen=builders.seen(blas_threads=2, threads=2),
            probes={"one_blas_thread": gain},
        )
    )
    named = [each for each in found if each.bottleneck == Bottleneck.THREADS]
    assert [each.severity for each in named] == ([severity] if severity else [])
    if severity == "critical":
        assert found[0] is named[0]
        assert found[0].headline.endswith(
            "with one thread for NumPy's linear algebra it ran 2.80× as fast."
        )
        assert found[0].max_gain == gain


@pytest.mark.parametrize(
    ("gain", "severity"), [(1.6, "critical"), (1.15, "warning"), (1.05, None), (0.9, None)]
)
def test_anomaly_detection_that_is_left_on_is_named_with_its_line(gain, severity):
    places = Places(anomaly=Place(path="/home/me/train.py", line=7))
    found = diagnose(
        profile(phases=HEALTHY, seen=builders.seen(places=places), probes={"no_anomaly": gain})
    )
    named = [each for each in found if each.bottleneck == Bottleneck.CHECKS]
    assert [each.severity for each in named] == ([severity] if severity else [])
    if severity == "critical":
        assert found[0] is named[0] and found[0].max_gain == gain
        assert found[0].headline == (
            "torch's anomaly detection is on (train.py:7): without it, it ran 1.60× as fast."
        )


@pytest.mark.parametrize(
    ("cost", "severity"), [(1.9, "warning"), (1.15, "warning"), (1.06, "info"), (1.02, None)]
)
def test_averages_that_will_be_denormal_are_told_with_what_they_cost(cost, severity):
    coming = Denormals(coming=0.31, after_steps=1_400, times_as_long=cost)
    found = diagnose(profile(phases=HEALTHY, denormals=coming))
    named = [each for each in found if each.bottleneck == Bottleneck.DENORMALS]
    assert [each.severity for each in named] == ([severity] if severity else [])
    if cost == 1.9:
        assert found[0] is named[0] and found[0].max_gain == cost
        assert found[0].headline == (
            "If they go on to dwindle, 31 % of the optimizer's averages are denormal numbers in "
            "some 1,400 steps, with which a step takes 1.90× as long."
        )


def test_tiny_steps_are_small_operations():
    found = first(phases=HEALTHY, step_seconds=0.00087, seen=tiny(2_410), ceilings=ceilings())
    assert found.bottleneck == Bottleneck.OVERHEAD
    assert found.headline.startswith("Takes 0.87 ms a step: small operations")
    assert found.max_gain is None


@pytest.mark.parametrize(("per_step", "small"), [(60, False), (300, True)])
def test_a_short_step_of_few_long_operations_is_none_of_small_ones(per_step, small):
    """An LSTM, which oneDNN runs as one operation, uses each weight many times."""
    counted = Operations(per_step=per_step, place=None, function="", share=0.0)
    given = {"phases": HEALTHY, "step_seconds": 0.004, "seen": tiny(19_000), "operations": counted}
    assert (Bottleneck.OVERHEAD in by_name(**given)) is small


@pytest.mark.parametrize(("device", "whose"), [("cpu", "machine"), ("cuda", "device")])
def test_memory_that_is_full_is_the_machines_where_it_computes(device, whose):
    full = replace(builders.profile().memory, peak_bytes=int(7.6 * builders.GIB), is_limit=False)
    found = by_name(memory=full, machine=builders.machine(device=device), gpu=None)
    assert f"of the {whose}'s memory" in found[Bottleneck.MEMORY].headline


def test_batches_without_a_loader_are_not_said_to_lie_in_pageable_memory():
    phases = {"copy": 0.3, "forward": 0.3, "backward": 0.35, "other": 0.05}
    found = first(phases=phases, ceilings=ceilings(), seen=builders.seen(loader=None))
    assert "MB is copied, and the program waits" in found.evidence


def test_short_steps_that_get_through_much_work_are_not_overhead():
    seen = tiny(2_000_000)
    assert Bottleneck.OVERHEAD not in by_name(phases=HEALTHY, step_seconds=0.004, seen=seen)


def test_long_steps_are_not_overhead():
    assert Bottleneck.OVERHEAD not in by_name(phases=HEALTHY, step_seconds=0.05, seen=tiny(100))


def test_full_memory_is_named_and_takes_no_time():
    memory = type(builders.profile().memory)(
        peak_bytes=int(7.9 * GIB),
        parameter_bytes=GIB,
        gradient_bytes=GIB,
        optimizer_bytes=2 * GIB,
        activation_bytes=None,
        capacity_bytes=8 * GIB,
    )
    found = diagnose(profile(memory=memory))
    assert [each.bottleneck for each in found[:2]] == [Bottleneck.DATA, Bottleneck.MEMORY]
    assert found[1].severity == "critical"
    assert "(7.9 of 8.0 GiB)" in found[1].headline


def test_memory_that_was_not_measured_is_not_spoken_of():
    memory = type(builders.profile().memory)(
        peak_bytes=None,
        parameter_bytes=1,
        gradient_bytes=1,
        optimizer_bytes=1,
        activation_bytes=None,
        capacity_bytes=1,
    )
    assert Bottleneck.MEMORY not in by_name(memory=memory)


def test_a_profile_of_which_nothing_is_known_still_has_a_finding():
    (found,) = diagnose(profile(phases={}, ceilings=(), data_processor_share=None))
    assert found.bottleneck == Bottleneck.COMPUTE
    assert found.severity == "info"


class TestBusyLines:
    def test_the_function_that_takes_most_of_a_phase_is_named(self):
        assert "70 % of each step, 40 % in auc (metrics.py:41); without" in named(busy())

    def test_no_function_takes_more_than_the_phase(self):
        assert "70 % of each step, 70 % in auc (metrics.py:41); without" in named(busy(share=0.8))

    def test_one_that_takes_little_of_it_is_not(self):
        assert "auc" not in named(busy(share=0.1))

    def test_what_has_no_name_has_a_place(self):
        found = named(busy(phase="data", function="<lambda>"))
        assert "Waits for data 70 % of each step, 40 % at metrics.py:41; loading" in found

    def test_a_method_of_a_model_that_computes_much_beside_its_forward_is_named(self):
        line = BusyLine(path="/p/ppo.py", line=91, function="act", phase="forward", share=0.4)
        acting = profile(phases={"forward": 0.8, "other": 0.2}, lines=(line,), step_seconds=0.02)
        assert "Computes 80 % of each step, 40 % in act (ppo.py:91)" in named(acting)


def busy(**changes):
    line = {"phase": "other", "path": "/p/metrics.py", "line": 41, "function": "auc", "share": 0.4}
    line = BusyLine(**line | changes)
    return profile(phases={"forward": 0.3, line.phase: 0.7}, lines=(line,))


def named(profiled):
    return " ".join(finding.headline for finding in diagnose(profiled))


@pytest.mark.parametrize(
    ("device", "waits", "computes", "first"),
    [
        ("cpu", 0.14, 0.8, "compute"),
        ("cpu", 0.22, 0.77, "compute"),
        ("cpu", 0.30, 0.70, "compute"),
        ("cpu", 0.34, 0.65, "part"),
        ("cuda:0", 0.14, 0.8, "part"),
    ],
)
@pytest.mark.parametrize("part", ["data", "host"])
def test_a_cpu_is_held_back_by_computing_where_halving_that_gains_more_than_the_rest(
    part: str, device: str, waits: float, computes: float, first: str
) -> None:
    rest = {"data": waits, "other": 1 - waits - computes}
    own = {"data": 0.0, "other": 1 - computes}
    phases = {"backward": computes, **(rest if part == "data" else own)}
    seen = loader(num_workers=2) if part == "data" else builders.seen(loader=None)
    machine = builders.machine(device=device)
    one = profile(phases=phases, windows=(), machine=machine, seen=seen, ceilings=ceilings())
    one = replace(one, probes={"bf16_speedup": 2.0})
    found = [each.bottleneck.value for each in diagnose(one)]
    assert found[0] == (part if first == "part" else first)
    assert part in found


@pytest.mark.parametrize(
    ("waits", "working", "bf16", "first"),
    [
        (0.22, 1.0, 2.0, "compute"),
        (0.22, 1.0, 0.3, "data"),  # no setting halves what is computed
        (0.14, 1.0, 0.3, "compute"),
        (0.22, 0.05, 2.0, "data"),  # a loader that waits leaves the processors to the rest
    ],
)
def test_what_can_go_of_computing_is_by_what_the_profile_found(
    waits: float, working: float, bf16: float, first: str
) -> None:
    found = diagnose(
        profile(
            phases={"data": waits, "backward": 1 - waits},
            ceilings=ceilings(),
            seen=workers(2),
            data_processor_share=working,
            probes={"bf16_speedup": bf16},
        )
    )
    assert found[0].bottleneck == first


@pytest.mark.parametrize(("own", "first"), [(0.18, "compute"), (0.36, "host")])
def test_code_of_its_own_comes_first_by_its_share_whatever_settings_gain(
    own: float, first: str
) -> None:
    """No setting gains it either."""
    phases = {"other": own, "forward": 1 - own}
    seen = builders.seen(loader=None)
    one = profile(phases=phases, windows=(), seen=seen, probes={"bf16_speedup": 0.3})
    found = [each.bottleneck.value for each in diagnose(one)]
    assert found[0] == first
    assert "host" in found


def test_computing_comes_before_a_wait_and_that_before_what_gains_less() -> None:
    phases = {"data": 0.3, "optimizer": 0.2, "backward": 0.5}
    one = profile(phases=phases, ceilings=ceilings(), probes={"bf16_speedup": 2.0})
    found = [each.bottleneck.value for each in diagnose(one)]
    assert found == ["compute", "data", "optimizer"]
    assert diagnose(one)[0].headline == (
        "Computes 70 % of each step; it also waits for data 30 %; loading faster can gain up to "
        "1.43×."
    )


@pytest.mark.parametrize(
    ("share", "given", "first"),
    [
        (0.2, {"name": "Adam"}, "optimizer"),
        (0.2, {"name": "MuonAdamW", "takes_foreach": False}, "compute"),
        (0.45, {"name": "MuonAdamW", "takes_foreach": False}, "optimizer"),
    ],
)
def test_an_optimizer_of_the_programs_own_is_named_first_where_it_takes_most(
    share: float, given: dict[str, object], first: str
) -> None:
    seen = builders.seen(optimizer=replace(builders.seen().optimizer, **given))
    found = diagnose(profile(phases={"optimizer": share, "forward": 1 - share}, seen=seen))
    assert found[0].bottleneck == first


def test_small_operations_stand_for_computing() -> None:
    phases = {"data": 0.3, "forward": 0.35, "backward": 0.35}
    one = profile(phases=phases, ceilings=ceilings(), step_seconds=0.001, seen=tiny(2_410))
    found = [each.bottleneck.value for each in diagnose(replace(one, probes={}))]
    assert found == ["overhead", "data", "compute"]
    headline = diagnose(replace(one, probes={}))[0].headline
    assert "; it also waits for data 30 % of each step" in headline


@pytest.mark.parametrize(
    ("wait", "gain", "first"),
    [(0.12, 1.8, "data"), (0.12, 1.15, "compute"), (0.06, 4.5, "data"), (0.06, 1.3, "compute")],
)
def test_a_cpu_that_computes_long_for_its_workers_is_held_back_by_loading(
    wait: float, gain: float, first: str
) -> None:
    phases = {"data": wait, "forward": 0.35, "backward": 0.4, "other": 0.25 - wait}
    one = profile(phases=phases, ceilings=ceilings(compute=gain), seen=workers(4), probes={})
    found = diagnose(one)[0]
    assert found.bottleneck == first
    assert ("workers slow the rest" in found.headline) is (first == "data")


@pytest.mark.parametrize(("host", "crowded"), [(None, False), (4.0, True)])
def test_what_a_gpu_is_spared_of_copies_is_not_the_workers_doing(
    host: float | None, crowded: bool
) -> None:
    phases = {"data": 0.02, "copy": 0.75, "forward": 0.1, "backward": 0.13}
    given = {"phases": phases, "ceilings": ceilings(compute=4.2, host=host), "probes": {}}
    found = diagnose(profile(seen=workers(4), **given))
    said = [each.bottleneck for each in found if "workers slow the rest" in each.headline]
    assert bool(said) is crowded


def test_workers_that_take_the_processors_come_before_what_they_slow_down() -> None:
    phases = {"data": 0.04, "forward": 0.28, "backward": 0.43, "optimizer": 0.22, "other": 0.03}
    one = profile(phases=phases, ceilings=ceilings(compute=4.5), seen=workers(2), probes={})
    kinds = [each.bottleneck.value for each in diagnose(one)]
    assert kinds[0] == "data" and "optimizer" in kinds


def test_it_says_why_a_batch_at_hand_gains_more_than_the_wait_for_it() -> None:
    for count, said in ((0, False), (8, True)):
        given = {"ceilings": ceilings(compute=1.24, data=22.0), "seen": workers(count)}
        (found,) = diagnose(profile(phases=HEALTHY, **given))
        assert ("workers slow the rest" in found.evidence) is said


def test_what_copies_take_is_not_said_to_be_the_workers_doing() -> None:
    """On a GPU a batch that is at hand need not be copied either."""
    phases = {**HEALTHY, "copy": 0.2, "forward": HEALTHY["forward"] - 0.2}
    given = {"ceilings": ceilings(compute=1.24, data=22.0), "seen": workers(8)}
    evidence = " ".join(each.evidence for each in diagnose(profile(phases=phases, **given)))
    assert "workers slow" not in evidence


@pytest.mark.parametrize(("device", "said"), [("cpu", True), ("cuda:0", False)])
def test_more_threads_than_cores_are_named(device: str, said: bool) -> None:
    machine = builders.machine(device=device, cores=2)
    one = profile(phases={"forward": 0.9, "other": 0.1}, windows=(), machine=machine)
    one = replace(one, seen=replace(one.seen, threads=8))
    headline = next(each.headline for each in diagnose(one) if each.bottleneck == "compute")
    assert ("by 8 threads on 2 cores" in headline) is said


@pytest.mark.parametrize(("faster", "said"), [(1.3, True), (1.1, False)])
def test_an_optimizers_share_is_said_of_the_threads_that_it_was_timed_with(
    faster: float, said: bool
) -> None:
    phases = {"data": 0.01, "forward": 0.3, "backward": 0.29, "optimizer": 0.4}
    seen = replace(builders.seen(), threads=8)
    found = by_name(phases=phases, seen=seen, probes={"one_thread": faster})
    headline = found[Bottleneck.OPTIMIZER].headline
    alone = " with 8 threads on 2 cores, of which one alone computes 1.30× as fast;"
    assert headline.startswith(f"Updates weights 40 % of each step{alone if said else ';'}")


def test_an_epoch_that_drops_its_last_batch_has_whole_steps_only():
    loader = replace(builders.seen().loader, batch_size=20, length=65, dataset_length=1312)
    for drops, steps in ((False, 65.6), (True, 65)):
        seen = builders.seen(loader=replace(loader, drop_last=drops), samples_per_step=20.0)
        assert steps_of_an_epoch(seen) == steps
