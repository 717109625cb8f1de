"""What each knob offers, and why it does not, on profiles that differ in one thing."""

import math
import os
from dataclasses import replace
from typing import Any

import pytest

from autotune.knobs import by_name, setup_for, unconfirmed
from autotune.knobs.knob import Choices, Config, Skip, Value
from autotune.measurement.first_epoch import doubts_of_memory
from autotune.profiling.gpu import GpuProfile
from autotune.profiling.profile import Profile
from autotune.source.edits import ModelStatement, Place, Places, ProcessStatement
from autotune.workload.found import Denormals, SavedBlock
from tests import builders
from tests.builders import GIB
from tests.knobs.profiles import (
    ceilings,
    iterable,
    memory,
    multiplying_in_numpy,
    on_a_cpu,
    on_a_gpu,
    settled,
    short_of_memory,
    taking_memory_anew,
    waiting,
    with_loader,
    with_machine,
    with_model,
    with_optimizer,
    with_seen,
    without_a_loader,
)


def offered(name: str, profile: Profile) -> tuple[Value, ...]:
    domain = by_name(name).domain(profile)
    assert isinstance(domain, Choices), domain
    return domain.values


def reason(name: str, profile: Profile) -> str:
    return skip(name, profile).reason


def skip(name: str, profile: Profile) -> Skip:
    domain = by_name(name).domain(profile)
    assert isinstance(domain, Skip), domain
    return domain


class TestNumWorkers:
    def test_decoding_uses_the_cores(self) -> None:
        assert offered("num_workers", on_a_cpu()) == (0, 1, 2)
        assert offered("num_workers", with_machine(on_a_cpu(), cores=6)) == (0, 1, 2, 4, 6)

    def test_waiting_goes_far_beyond_the_cores(self) -> None:
        assert offered("num_workers", waiting()) == (0, 1, 2, 4, 8, 16, 32)

    def test_waiting_needs_no_more_than_training_can_swallow(self) -> None:
        hungry_for_four = waiting(ceilings=ceilings(compute=4.0, data=1.02))
        assert offered("num_workers", hungry_for_four) == (0, 1, 2, 4, 8, 16)

    def test_half_waiting_uses_twice_the_cores(self) -> None:
        half = on_a_cpu(data_processor_share=0.5)
        assert offered("num_workers", half) == (0, 1, 2, 4)

    def test_a_cache_that_was_not_seen_full_is_not_filled_by_each_worker(self) -> None:
        (doubt,) = doubts_of_memory(None, ["Scans._cache"])
        filling = replace(on_a_cpu(), doubts=(doubt,))
        assert "one of its own" in reason("num_workers", filling)

    def test_the_programs_own_number_is_kept(self) -> None:
        own = with_loader(on_a_cpu(data_processor_share=1.9), num_workers=12)
        assert offered("num_workers", own) == (0, 1, 2, 12)

    def test_workers_that_fill_the_cores_are_not_taken_for_waiting(self) -> None:
        crowded = with_loader(on_a_cpu(data_processor_share=1.96), num_workers=8)
        assert offered("num_workers", crowded) == (0, 1, 2, 8)

    def test_batches_in_the_queue_fit_in_shared_memory(self) -> None:
        batch = waiting().seen.batch_bytes
        small = with_machine(waiting(), shared_memory_bytes=2 * 2 * 6 * batch)
        assert offered("num_workers", small) == (0, 1, 2, 4, 6)

    def test_without_shared_memory_there_are_no_workers(self) -> None:
        assert "would take more than half of the shared memory" in reason(
            "num_workers", with_machine(waiting(), shared_memory_bytes=0)
        )

    def test_is_left_out_where_training_does_not_wait(self) -> None:
        timed = ceilings(compute=1.01, data=9.0)
        busy = on_a_cpu(ceilings=timed, phases={"data": 0.05, "forward": 0.95})
        assert reason("num_workers", busy) == (
            "training hardly waits for data: loading faster can gain at most 1.0 %"
        )
        waits = on_a_cpu(ceilings=timed, phases={"data": 0.2, "forward": 0.8})
        assert offered("num_workers", waits) == (0, 1, 2), "it slowed down meanwhile, say"

    @pytest.mark.parametrize(("delivers", "is_offered"), [(1.15, True), (9.0, False)])
    def test_workers_that_hardly_keep_up_count_once_computing_is_faster(
        self, delivers: float, is_offered: bool
    ) -> None:
        close = on_a_gpu(
            ceilings=ceilings(compute=1.01, data=delivers),
            phases={"data": 0.01, "forward": 0.4, "backward": 0.5},
            data_processor_share=2.0,
        )
        domain = by_name("num_workers").domain(with_loader(close, num_workers=2))
        assert isinstance(domain, Choices) is is_offered

    def test_goes_by_the_waits_where_no_ceiling_was_measured(self) -> None:
        phases = {"data": 0.01, "forward": 0.5, "backward": 0.49}
        assert "at most 1.0 %" in reason("num_workers", on_a_cpu(ceilings=(), phases=phases))

    def test_workers_that_compute_count_where_no_ceiling_was_measured(self) -> None:
        phases = {"data": 0.01, "forward": 0.5, "backward": 0.49}
        beside = builders.window(seconds=2.0, worker_cpu_seconds=1.0)
        crowded = on_a_cpu(ceilings=(), phases=phases, windows=(beside,))
        assert 0 in offered("num_workers", with_loader(crowded, num_workers=2))

    def test_is_tried_where_nothing_is_known_of_the_waits(self) -> None:
        assert offered("num_workers", on_a_cpu(ceilings=(), phases={})) == (0, 1, 2)

    def test_are_offered_for_an_iterable_dataset_which_is_seen_to_share_its_samples_out(
        self,
    ) -> None:
        assert offered("num_workers", iterable()) == (0, 1, 2)

    def test_needs_a_loader(self) -> None:
        assert "no DataLoader of torch's" in reason("num_workers", without_a_loader())


class TestBatchSize:
    def test_grows_as_far_as_memory_has_room(self) -> None:
        roomy = with_loader(on_a_gpu(memory=memory(0.1, 40 * GIB)), length=630)
        assert offered("batch_size", roomy) == (32, 64, 128, 256)
        assert offered("batch_size", on_a_gpu(memory=memory(0.4, 40 * GIB))) == (32, 64)
        assert "too much memory" in reason("batch_size", short_of_memory(on_a_gpu()))

    def test_an_epoch_has_fewer_steps_than_batches_where_gradients_are_added_up(self) -> None:
        room = on_a_gpu(memory=memory(0.1, 40 * GIB))
        added = with_loader(room, length=64, dataset_length=2048)
        assert offered("batch_size", added) == (32, 64, 128, 256)
        added = with_seen(added, samples_per_step=256.0, backwards_per_step=8.0, micro_batches=8)
        assert "an epoch has 8 steps" in reason("batch_size", added)

    def test_what_grows_in_memory_may_not_be_known(self) -> None:
        assert "which is not known" in reason("batch_size", on_a_cpu(memory=memory(0.4)))

    def test_only_what_a_batch_takes_grows_with_it(self) -> None:
        half = replace(memory(0.5, 40 * GIB), activation_bytes=5 * GIB)
        assert offered("batch_size", on_a_gpu(memory=half)) == (32, 64, 128)
        worked_in = replace(half, workspace_bytes=5 * GIB)
        assert offered("batch_size", on_a_gpu(memory=worked_in)) == (32, 64)

    def test_on_a_cpu_other_programs_keep_their_memory(self) -> None:
        assert offered("batch_size", on_a_cpu(memory=memory(0.05))) == (32, 64, 128)
        assert offered("batch_size", on_a_cpu(memory=memory(0.2))) == (32, 64)
        limited = replace(memory(0.2), is_limit=True)
        assert offered("batch_size", on_a_cpu(memory=limited)) == (32, 64, 128)

    def test_an_epoch_keeps_its_steps(self) -> None:
        assert offered("batch_size", with_loader(on_a_cpu(), length=20)) == (32, 64)
        assert "an epoch has 15 steps" in reason("batch_size", with_loader(on_a_cpu(), length=15))
        assert offered("batch_size", iterable()) == (32, 64, 128)

    def test_batches_of_workers_fit_in_shared_memory(self) -> None:
        crowded = with_machine(
            with_loader(on_a_cpu(), num_workers=2), shared_memory_bytes=14 * 1_573_120
        )
        assert "shared memory" in reason("batch_size", crowded)

    @pytest.mark.parametrize(
        ("profile", "why"),
        [
            (without_a_loader(), "no DataLoader"),
            (
                with_loader(on_a_cpu(), batch_size=None),
                "its loader has no batch_size",
            ),
            (
                with_loader(on_a_cpu(), custom_batches=True),
                "its batches are made by a batch_sampler of its own",
            ),
            (with_loader(on_a_cpu(), beside=1), "several loaders"),
            (
                with_seen(with_loader(on_a_cpu(), batch_size=1), batch=("int64[31]",)),
                "without a dimension for more",
            ),
        ],
    )
    def test_is_refused_where_batches_are_not_the_loaders_alone(
        self, profile: Profile, why: str
    ) -> None:
        assert skip("batch_size", profile).impossible
        assert why in reason("batch_size", profile)

    def test_needs_to_know_what_batches_take(self) -> None:
        unknown = replace(memory(0.4), peak_bytes=None)
        assert "was not measured" in reason("batch_size", on_a_cpu(memory=unknown))
        assert "batches differ" in reason("batch_size", with_seen(on_a_gpu(), shapes=3))

    def test_is_left_out_where_only_loading_counts(self) -> None:
        phases = {"data": 0.99, "forward": 0.01, "optimizer": 0.0}
        loading = on_a_cpu(ceilings=ceilings(compute=50.0, data=1.0), phases=phases)
        cores = with_machine(loading, cores=1)
        assert "loading holds training back" in reason("batch_size", cores)

    def test_short_steps_are_expected_to_gain_most(self) -> None:
        knob = by_name("batch_size")
        short, long = on_a_cpu(step_seconds=0.001), on_a_cpu(step_seconds=1.0)
        assert knob.expects(32, short).log_mean == pytest.approx(0)
        assert knob.expects(128, short).log_mean < -1 < knob.expects(128, long).log_mean < 0
        idle = on_a_gpu(gpu=GpuProfile(busy_share=0.5))
        assert knob.expects(64, idle).log_mean == pytest.approx(math.log(0.75))

    def test_says_what_another_training_it_is(self) -> None:
        said = by_name("batch_size").otherwise(128, on_a_cpu().seen)
        assert "128 samples instead of 32" in said
        assert "learning rate" in said and "Goyal" in said and "fewer steps" in said


class TestPrefetchFactor:
    queueing = with_loader(waiting(), num_workers=4, prefetch_factor=2)

    def test_a_longer_queue_bridges_waits(self) -> None:
        assert offered("prefetch_factor", self.queueing) == (2, 4)

    def test_is_left_out_where_loading_computes(self) -> None:
        decoding = with_loader(on_a_cpu(), num_workers=1, prefetch_factor=2)
        assert "computes rather than waits" in reason("prefetch_factor", decoding)
        unknown = replace(decoding, data_processor_share=None)
        assert "was not measured" in reason("prefetch_factor", unknown)

    def test_is_left_out_where_batches_are_there_in_time(self) -> None:
        slow = with_loader(on_a_cpu(), num_workers=8, prefetch_factor=2)
        phases = {**slow.phases, "data": 0.01}
        assert "hardly waits" in reason("prefetch_factor", replace(slow, phases=phases))

    def test_is_left_out_where_there_are_no_workers_yet(self) -> None:
        assert "no workers; those that are tried" in reason("prefetch_factor", waiting())

    def test_is_left_out_where_the_queue_is_long(self) -> None:
        assert "long already" in reason(
            "prefetch_factor", with_loader(waiting(), num_workers=4, prefetch_factor=8)
        )

    def test_fits_in_shared_memory(self) -> None:
        assert "shared memory" in reason(
            "prefetch_factor", with_machine(self.queueing, shared_memory_bytes=4_000_000)
        )

    @pytest.mark.parametrize("workers", [1, 8])
    def test_means_something_with_workers_only(self, workers: int) -> None:
        knob = by_name("prefetch_factor")
        assert knob.active({"num_workers": workers})
        assert not knob.active({"num_workers": 0})


class TestPersistentWorkers:
    def test_is_worth_it_for_short_epochs(self) -> None:
        assert offered("persistent_workers", on_a_cpu(step_seconds=0.01)) == (False, True)

    def test_is_left_out_for_long_ones(self) -> None:
        long = with_loader(on_a_cpu(step_seconds=0.34), length=1000)
        assert "next to nothing of an epoch" in reason("persistent_workers", long)

    def test_an_epoch_is_as_short_as_its_steps_are_few(self) -> None:
        given = on_a_cpu(step_seconds=0.16, ceilings=())
        added = with_loader(given, length=200, dataset_length=6400)
        added = with_seen(added, samples_per_step=256.0, backwards_per_step=8.0, micro_batches=8)
        assert offered("persistent_workers", added) == (False, True)

    def test_goes_by_what_it_took_to_start_them(self) -> None:
        """Each epoch of 20 steps begins with one of 3 s: of 25 s in all, the ceiling says."""
        window = builders.window(step_seconds=(0.5, *(3.0, *[0.5] * 19) * 3), phases={"data": 12.0})
        slow = with_loader(
            on_a_cpu(step_seconds=1.3, windows=(window,), ceilings=()),
            num_workers=4,
            length=20,
            dataset_length=640,
            epochs=3,
        )
        assert offered("persistent_workers", slow) == (False, True)

    def test_is_left_out_where_it_is_set(self) -> None:
        own = with_loader(on_a_cpu(), num_workers=2, persistent_workers=True)
        assert "already" in reason("persistent_workers", own)

    def test_is_refused_where_the_dataset_changes_between_epochs(self) -> None:
        skipped = skip("persistent_workers", with_loader(on_a_cpu(), changing=True))
        assert "changes from one epoch to the next" in skipped.reason
        assert skipped.impossible

    def test_is_refused_where_each_epoch_seeds_the_workers_alike(self) -> None:
        skipped = skip("persistent_workers", with_loader(on_a_cpu(), reseeded=True))
        assert "seeds the workers alike in every epoch" in skipped.reason
        assert skipped.impossible

    def test_is_refused_where_a_step_draws_from_other_loaders_too(self) -> None:
        skipped = skip("persistent_workers", with_loader(on_a_cpu(), beside=1))
        assert "order may part from theirs" in skipped.reason
        assert skipped.impossible

    def test_are_void_where_the_dataset_changes_or_no_second_epoch_was_seen(self) -> None:
        config: Config = {"persistent_workers": True}
        for epochs, changing, says in ((3, True, "is changed"), (1, False, "no second epoch")):
            given = with_loader(
                on_a_cpu(), num_workers=2, persistent_workers=True, changing=changing, epochs=epochs
            )
            assert says in unconfirmed(config, given.seen)[0]
        had_not = with_loader(on_a_cpu(), num_workers=2, epochs=3).seen
        assert unconfirmed(config, had_not)[0].endswith("and the run had false")


class TestCopies:
    @pytest.mark.parametrize("name", ["pin_memory", "non_blocking"])
    def test_are_a_gpus(self, name: str) -> None:
        assert offered(name, on_a_gpu()) == (False, True)
        assert skip(name, on_a_cpu()).impossible

    @pytest.mark.parametrize("name", ["pin_memory", "non_blocking"])
    def test_are_left_out_where_they_cost_little(self, name: str) -> None:
        cheap = on_a_gpu(ceilings=ceilings(compute=1.26, host=1.25, data=2.0))
        assert "gains at most 0.8 %" in reason(name, cheap)

    @pytest.mark.parametrize("name", ["pin_memory", "non_blocking"])
    def test_are_left_out_where_there_are_none(self, name: str) -> None:
        assert "at most half of the steps" in reason(
            name, with_seen(on_a_gpu(), copies_to_device=0)
        )

    def test_a_buffer_that_is_filled_again_is_copied_in_time(self) -> None:
        assert "a buffer that it fills again" in reason(
            "non_blocking", with_seen(on_a_gpu(), own_buffers=True)
        )

    def test_only_pinned_memory_is_copied_without_waiting(self) -> None:
        assert by_name("non_blocking").active({"pin_memory": True})
        assert not by_name("non_blocking").active({"pin_memory": False})


class TestPrecision:
    def test_a_cpu_offers_bf16_only_where_it_was_measured_faster(self) -> None:
        assert offered("precision", on_a_cpu(probes={"bf16_speedup": 3.1})) == ("fp32", "bf16")
        assert "0.21 times the speed" in reason("precision", on_a_cpu())
        assert "not measured" in reason("precision", on_a_cpu(probes={}))

    def test_an_ampere_gpu_offers_everything(self) -> None:
        assert offered("precision", on_a_gpu()) == ("fp32", "tf32", "bf16", "fp16")

    def test_an_older_gpu_offers_fp16_only(self) -> None:
        volta = with_machine(on_a_gpu(), capability=(7, 0))
        assert offered("precision", volta) == ("fp32", "fp16")
        pascal = with_machine(on_a_gpu(), capability=(6, 1))
        assert "no tensor cores" in reason("precision", pascal)

    def test_fp32_is_not_offered_to_a_program_that_has_tf32(self) -> None:
        own = with_seen(on_a_gpu(), matmul_precision="high")
        assert offered("precision", own) == ("tf32", "bf16", "fp16")

    def test_a_scaler_serves_one_optimizer_without_closure(self) -> None:
        assert "fp16" not in offered("precision", with_seen(on_a_gpu(), optimizers=2))
        assert "fp16" not in offered("precision", with_optimizer(on_a_gpu(), closure=True))

    def test_hooks_on_gradients_are_given_none_that_are_scaled(self) -> None:
        hooked = with_model(on_a_gpu(), gradient_hooks=True)
        assert offered("precision", hooked) == ("fp32", "tf32", "bf16")
        assert "hooks" in reason("precision", with_machine(hooked, capability=(7, 0)))

    def test_a_program_under_autocast_keeps_it(self) -> None:
        own = with_seen(on_a_gpu(), autocast="float16")
        assert by_name("precision").read(own.seen) == "fp16"
        assert skip("precision", own).impossible

    def test_a_program_with_a_scaler_of_its_own_keeps_its_format(self) -> None:
        """Autocast inside or on `forward` is not seen from outside the call."""
        own = with_seen(on_a_gpu(), scaler=True)
        skipped = skip("precision", own)
        assert "GradScaler of its own: parts of it may run" in skipped.reason
        assert skipped.impossible

    def test_weights_that_are_updated_by_hand_have_no_scaler(self) -> None:
        volta = with_machine(on_a_gpu(), capability=(7, 0))
        by_hand = with_seen(volta, optimizers=0, matmul_precision="highest")
        assert "no optimizer of torch's was seen to step" in reason("precision", by_hand)

    @pytest.mark.parametrize("given", [on_a_gpu(), on_a_cpu(probes={"bf16_speedup": 3.0})])
    def test_precision_is_not_tried_for_float64(self, given: Profile) -> None:
        assert "float64" in reason("precision", with_model(given, dtype="float64"))
        assert "bf16" in offered("precision", with_model(given, dtype="float32"))

    def test_half_precision_weights_stay(self) -> None:
        own = with_model(on_a_gpu(), dtype="bfloat16")
        assert by_name("precision").read(own.seen) == "bf16"
        assert "bfloat16 already" in reason("precision", own)


class TestModel:
    def test_channels_last_is_for_convolutions(self) -> None:
        assert offered("channels_last", on_a_cpu()) == (False, True)
        by_function = with_model(on_a_cpu(), convolutions=0)  # F.conv2d(x, self.weight * scale)
        assert "no nn.Conv2d whose weights" in reason("channels_last", by_function)
        deep = with_model(on_a_cpu(), five_dimensional=True)
        assert "(channels_last_3d is theirs)" in reason("channels_last", deep)
        assert "already" in reason("channels_last", settled())
        alike = with_model(on_a_cpu(), channels_last=None)
        assert "the same in both orders" in reason("channels_last", alike)
        flat = with_model(on_a_cpu(), weights_elsewhere=True)
        assert "cut them loose" in reason("channels_last", flat)

    @pytest.mark.parametrize(
        ("folder", "pretrained", "is_offered"),
        [("transformers", False, False), ("transformers", True, True), ("lightning", False, True)],
    )
    def test_channels_last_is_not_for_what_a_framework_saves_in_order_alone(
        self, folder: str, pretrained: bool, is_offered: bool
    ) -> None:
        profile = with_model(on_a_cpu(), pretrained=pretrained)
        step = Place(path=f"/venv/site-packages/{folder}/trainer.py", line=7)
        places = replace(profile.seen.places, step=step)
        profile = replace(profile, seen=replace(profile.seen, places=places))
        if is_offered:
            assert offered("channels_last", profile) == (False, True)
        else:
            assert "safetensors" in reason("channels_last", profile)

    def test_computing_is_left_alone_where_only_loading_counts(self) -> None:
        bound = with_loader(
            waiting(ceilings=ceilings(compute=20.0, data=1.01)), num_workers=32, prefetch_factor=2
        )
        assert reason("channels_last", bound) == (
            "loading holds training back: computing faster can gain at most 1.0 %"
        )

    @pytest.mark.parametrize("workers", [4, 8])
    def test_computing_counts_beside_more_workers_than_cores(self, workers: int) -> None:
        decoding = on_a_cpu(data_processor_share=2.0, ceilings=ceilings(compute=1.1, data=1.5))
        assert offered("channels_last", with_loader(decoding, num_workers=workers))

    def test_computing_counts_once_loading_can_be_made_faster(self) -> None:
        """Workers come first, and training is what holds them back then."""
        assert offered("channels_last", waiting()) == (False, True)

    def test_compile_says_what_a_trial_of_it_costs(self) -> None:
        assert offered("compile", on_a_cpu()) == ("off", "default")
        knob = by_name("compile")
        assert knob.delay_seconds("default", on_a_cpu()) > 20
        assert knob.delay_seconds("off", on_a_cpu()) == 0

    def test_cuda_graphs_are_a_gpus(self) -> None:
        graphs = ("off", "default", "reduce-overhead", "max-autotune")
        assert offered("compile", on_a_gpu()) == graphs
        knob = by_name("compile")
        on_gpu = [knob.delay_seconds(mode, on_a_gpu()) for mode in graphs]
        assert on_gpu == [0, 25.5, 26, 136]
        assert on_gpu[1] < knob.delay_seconds("default", on_a_cpu())

    def test_cuda_graphs_are_refused_for_changing_shapes(self) -> None:
        changing = with_loader(with_seen(on_a_gpu(), shapes=2), drop_last=True)
        assert offered("compile", changing) == ("off", "default")

    def test_cuda_graphs_are_refused_where_they_would_overwrite_what_is_kept(self) -> None:
        keeping = with_seen(on_a_gpu(), keeps_outputs=True)
        assert offered("compile", keeping) == ("off", "default")

    def test_an_incomplete_last_batch_is_no_change_of_shape(self) -> None:
        last = with_loader(with_seen(on_a_gpu(), shapes=2), dataset_length=2001)
        assert "reduce-overhead" in offered("compile", last)
        even = with_loader(last, dataset_length=32 * 60)
        assert "reduce-overhead" not in offered("compile", even)

    @pytest.mark.parametrize(
        ("profile", "why"),
        [
            (with_machine(on_a_cpu(), compiler=""), "needs a C++ compiler"),
            (with_machine(on_a_gpu(), compiler=""), "needs a C compiler"),
            (with_model(on_a_cpu(), compiled="max-autotune"), "already (max-autotune)"),
            (with_model(on_a_cpu(), of_torch=True), "is torch's own code"),
            (with_model(on_a_cpu(), of_torch=True, scripted=True), "TorchScript runs the"),
            (with_seen(on_a_cpu(), shapes=9), "9 shapes"),
            (with_seen(on_a_cpu(), calls=9), "numbers that the model is called with"),
            (with_seen(on_a_cpu(), models=()), "no module"),
        ],
    )
    def test_compile_has_its_conditions(self, profile: Profile, why: str) -> None:
        assert why in reason("compile", profile)

    def test_checkpointing_is_for_full_memory(self) -> None:
        assert offered("checkpointing", short_of_memory(on_a_gpu())) == (0, 1, 2)
        assert "only costs time" in reason("checkpointing", on_a_gpu())
        unknown = replace(on_a_gpu(), memory=replace(memory(0.5), peak_bytes=None))
        assert "not measured" in reason("checkpointing", unknown)

    @pytest.mark.parametrize(
        ("freed", "seconds", "values"),
        [
            # 95 % of 40 GiB are full: 1.2 GiB less would do. The first block frees 3 GiB.
            ((3.0, 2.0, 1.0), (0.1, 0.1, 0.1), (0, 1, 3)),
            ((1.0, 2.0, 3.0), (0.1, 0.1, 0.1), (0, -1, 3)),
            ((1.5, 2.0, 2.5, 3.0), (0.1, 0.1, 0.1, 0.1), (0, 1, -2, 4)),
            # The last frees more, but takes longer than the first two together.
            ((1.0, 2.0, 3.0), (0.1, 0.1, 0.3), (0, 2, 3)),
            ((0.5, 0.5, 0.5), (0.1, 0.1, 0.1), (0, 2, 3)),
            ((0.1, 0.1), (0.1, 0.1), (0, 1, 2)),
        ],
    )
    def test_as_many_blocks_are_recomputed_as_make_room_in_the_least_time(
        self, freed: tuple[float, ...], seconds: tuple[float, ...], values: tuple[int, ...]
    ) -> None:
        blocks = tuple(
            SavedBlock(name=f"layers.{place}", freed_bytes=int(gib * GIB), seconds=each)
            for place, (gib, each) in enumerate(zip(freed, seconds, strict=True))
        )
        given = with_model(
            short_of_memory(on_a_gpu()), blocks=tuple(block.name for block in blocks)
        )
        full = replace(memory(0.95, 40 * GIB), blocks=blocks)
        assert offered("checkpointing", replace(given, memory=full)) == values

    def test_recomputing_costs_what_the_blocks_took(self) -> None:
        blocks = (
            SavedBlock(name="layer1.0", freed_bytes=1, seconds=0.01),
            SavedBlock(name="layer1.1", freed_bytes=1, seconds=0.03),
        )
        given = replace(
            on_a_gpu(),
            memory=replace(memory(0.95), blocks=blocks),
            step_seconds=0.2,
            phases={"forward": 0.2, "backward": 0.3, "other": 0.5},
        )
        knob = by_name("checkpointing")
        factors = [math.exp(knob.expects(count, given).log_mean) for count in (1, -1, 2)]
        assert factors == pytest.approx([1.1, 1.3, 1.4])
        unmeasured = replace(given, memory=memory(0.95))
        assert knob.expects(2, unmeasured).log_mean == 2 * knob.expects(-1, unmeasured).log_mean > 0

    def test_checkpointing_needs_blocks(self) -> None:
        assert "no list of repeated blocks" in reason(
            "checkpointing", with_model(short_of_memory(on_a_gpu()), blocks=())
        )

    def test_a_batch_of_one_sample_cannot_be_divided(self) -> None:
        given = short_of_memory(on_a_gpu())
        loader = replace(given.seen.loader, batch_size=1)
        alone = replace(given, seen=replace(given.seen, loader=loader))
        assert (
            reason("micro_batches", alone)
            == "its loader has a batch_size of 1: there is nothing to split"
        )

    def test_blocks_that_keep_statistics_are_not_computed_again(self) -> None:
        given = with_model(short_of_memory(on_a_gpu()), moving_blocks=True)
        assert "keep statistics (batch norm" in reason("checkpointing", given)

    def test_blocks_are_taken_from_a_container_without_making_another(self) -> None:
        seen = with_model(on_a_gpu(), blocks=("stage.0", "stage.1", "stage.2")).seen
        written = {3: "", 1: "[:1]", -2: "[-2:]"}
        for count, end in written.items():
            (edit,) = by_name("checkpointing").edits(count, seen)
            assert isinstance(edit, ModelStatement)
            container = f"list({{model}}.stage.children()){end}" if end else "{model}.stage"
            assert edit.code.startswith(f"for block in {container}:")

    def test_cudnn_times_its_algorithms_for_few_shapes(self) -> None:
        assert offered("cudnn_benchmark", on_a_gpu()) == (False, True)
        assert "9 shapes" in reason("cudnn_benchmark", with_seen(on_a_gpu(), shapes=9))
        many = with_seen(on_a_gpu(), shapes=9, cudnn_benchmark=True)
        assert offered("cudnn_benchmark", many) == (False, True)
        assert "already" in reason("cudnn_benchmark", with_seen(many, shapes=2))

    def test_cudnn_times_convolutions_of_all_kinds(self) -> None:
        none = with_model(on_a_gpu(), convolutions=0)
        assert "no convolutions" in reason("cudnn_benchmark", none)
        volumes = with_model(none, other_convolutions=20)
        assert offered("cudnn_benchmark", volumes) == (False, True)
        by_functions = replace(none, gpu=GpuProfile(convolution_share=0.9))
        assert offered("cudnn_benchmark", by_functions) == (False, True)

    def test_cudnn_stays_deterministic(self) -> None:
        assert skip("cudnn_benchmark", with_seen(on_a_gpu(), deterministic=True)).impossible


class TestExpandableSegments:
    def keeping(self, kept: float, used: float, retries: int = 0) -> Profile:
        """A GPU whose allocator keeps a share of its memory, and a program that uses a share."""
        capacity = 40 * GIB
        full = replace(memory(used, capacity), reserved_bytes=int(kept * capacity))
        return on_a_gpu(memory=full, gpu=GpuProfile(allocator_retries=retries))

    def test_are_for_gaps_in_full_memory(self) -> None:
        assert offered("expandable_segments", self.keeping(0.98, 0.7)) == (False, True)
        assert "closing its gaps would give back no more" in reason(
            "expandable_segments", self.keeping(0.98, 0.95)
        )

    def test_are_for_an_allocator_that_had_to_ask_again(self) -> None:
        assert offered("expandable_segments", self.keeping(0.5, 0.5, retries=3)) == (False, True)

    def test_are_left_out_where_nothing_says_that_they_help(self) -> None:
        assert "there is room" in reason("expandable_segments", self.keeping(0.5, 0.3))
        assert "not measured" in reason("expandable_segments", on_a_gpu())
        own = with_seen(self.keeping(0.98, 0.7), expandable_segments=True)
        assert "already" in reason("expandable_segments", own)

    @pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
    def test_stand_beside_what_a_variable_says(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = self.cleared(monkeypatch)
        monkeypatch.setenv(name, "max_split_size_mb:128")
        edits = by_name("expandable_segments").edits(True, on_a_gpu().seen)
        both = "max_split_size_mb:128,expandable_segments:True"
        for _ in range(2):
            for switch in setup_for({"expandable_segments": True}).process:
                switch()
            assert [os.environ[each] for each in names] == [both, both]
        codes = [edit.code for edit in edits if isinstance(edit, ProcessStatement)]
        assert codes == [f'os.environ["{each}"] = "{both}"' for each in names]

    def test_are_set_where_only_the_name_that_torch_does_not_read_says_so(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = self.cleared(monkeypatch)
        monkeypatch.setenv(names[1], "expandable_segments:True")
        for switch in setup_for({"expandable_segments": True}).process:
            switch()
        assert [os.environ[each] for each in names] == ["expandable_segments:True"] * 2

    def test_leave_each_name_what_it_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, said in zip(self.cleared(monkeypatch), "ab", strict=True):
            monkeypatch.setenv(name, said)
        for switch in setup_for({"expandable_segments": True}).process:
            switch()
        assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == "a,expandable_segments:True"
        assert os.environ["PYTORCH_ALLOC_CONF"] == "b,expandable_segments:True"

    def cleared(self, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
        """The names of the variable, of which none is set."""
        names = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
        for name in names:
            monkeypatch.setenv(name, "")  # so that what a test sets is taken back
            monkeypatch.delenv(name)
        return names


class TestKeepFreedMemory:
    def test_is_for_memory_that_is_taken_anew(self) -> None:
        assert offered("keep_freed_memory", taking_memory_anew()) == (False, True)
        few = reason("keep_freed_memory", taking_memory_anew(1_200))
        assert "when profiled" in few and "next to nothing" in few
        assert "not measured" in reason("keep_freed_memory", taking_memory_anew(None))

    def test_the_more_the_more_is_expected(self) -> None:
        expects = by_name("keep_freed_memory").expects
        often, rarely = taking_memory_anew(100_000), taking_memory_anew(10_000)
        assert expects(True, often).log_mean < expects(True, rarely).log_mean < 0
        assert expects(False, often).log_mean == 0

    def test_what_workers_hand_over_does_not_count(self) -> None:
        given = taking_memory_anew(6_000, step_seconds=0.1)
        given = with_seen(given, batch_bytes=300 * 4096)
        assert offered("keep_freed_memory", with_loader(given, num_workers=0)) == (False, True)
        assert "next to nothing" in reason("keep_freed_memory", with_loader(given, num_workers=2))

    def test_is_left_out_where_there_is_nothing_to_turn(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = with_seen(taking_memory_anew(), keeps_freed_memory=True)
        assert "already" in reason("keep_freed_memory", own)
        monkeypatch.setattr("autotune.knobs.keep_freed_memory.can_keep_freed_memory", lambda: False)
        assert skip("keep_freed_memory", taking_memory_anew()).impossible


class TestFlushDenormal:
    def with_denormals(self, **found: float) -> Profile:
        return replace(on_a_cpu(), denormals=Denormals(**found))  # type: ignore[arg-type]

    def test_is_for_results_that_are_denormal(self) -> None:
        assert offered("flush_denormal", self.with_denormals(results=0.01)) == (False, True)
        assert "next to none" in reason("flush_denormal", self.with_denormals(results=1e-4))
        quick = replace(self.with_denormals(results=0.02), probes={"denormal_times": 1.2})
        assert "next to none" in reason("flush_denormal", quick)
        assert "not looked at" in reason("flush_denormal", on_a_cpu())
        assert skip("flush_denormal", on_a_gpu()).impossible

    def test_goes_along_where_averages_that_will_be_cost_something(self) -> None:
        knob = by_name("flush_denormal")
        costly = self.with_denormals(coming=0.3, after_steps=400, times_as_long=1.9)
        cheap = self.with_denormals(coming=0.3, after_steps=400, times_as_long=1.02)
        assert offered("flush_denormal", costly) == (False, True) and knob.goes_along(costly)
        assert not knob.goes_along(cheap) and "none of its time" in reason("flush_denormal", cheap)
        unknown = [self.with_denormals(coming=share, after_steps=400) for share in (0.3, 0.01)]
        assert [knob.goes_along(each) for each in unknown] == [True, False]
        now = self.with_denormals(results=0.01)
        assert not knob.goes_along(now)  # what it gains is timed
        assert knob.expects(True, now).log_mean < knob.expects(True, costly).log_mean == 0.0

    @pytest.mark.parametrize("eps", [1e-8, None, 1e-20, 0.0])
    def test_is_refused_where_what_becomes_zero_decides_what_is_divided_by(
        self, eps: float | None
    ) -> None:
        optimizer = on_a_cpu().seen.optimizer
        assert optimizer is not None
        optimizer = replace(optimizer, eps=eps)
        profile = with_seen(self.with_denormals(results=0.01), optimizer=optimizer)
        if eps is None or eps > 1e-10:
            assert offered("flush_denormal", profile) == (False, True)
        else:
            assert skip("flush_denormal", profile).impossible
            assert "divides by the root" in reason("flush_denormal", profile)

    @pytest.mark.parametrize("name", ["Lion", "PagedLion8bit", "Rprop", "SignSGD"])
    def test_is_refused_where_a_sign_is_stepped_by(self, name: str) -> None:
        optimizer = on_a_cpu().seen.optimizer
        assert optimizer is not None
        optimizer = replace(optimizer, name=name, eps=None)
        profile = with_seen(self.with_denormals(results=0.01), optimizer=optimizer)
        assert skip("flush_denormal", profile).impossible
        assert "by the sign" in reason("flush_denormal", profile)

    def test_is_left_alone_where_the_program_has_it(self) -> None:
        own = with_seen(self.with_denormals(results=0.01), flushes_denormals=True)
        assert "the program has" in reason("flush_denormal", own)


class TestBlasThreads:
    def test_is_for_a_program_that_was_faster_with_one(self) -> None:
        assert offered("blas_threads", multiplying_in_numpy(2.8)) == (1, 2)
        assert "not clearly faster" in reason("blas_threads", multiplying_in_numpy(1.01))
        assert "several threads" in reason("blas_threads", multiplying_in_numpy(None))

    @pytest.mark.parametrize(("processors", "tried"), [(1.4, True), (0.9, False)])
    def test_is_for_workers_that_keep_more_than_a_core_busy_each(
        self, processors: float, tried: bool
    ) -> None:
        profile = with_loader(multiplying_in_numpy(None), num_workers=2)
        window = builders.window(worker_cpu_seconds=0.0)
        busy = replace(window, worker_cpu_seconds=2 * processors * window.seconds)
        domain = by_name("blas_threads").domain(replace(profile, windows=(busy,)))
        assert isinstance(domain, Choices) is tried

    def test_is_left_out_where_there_is_nothing_to_turn(self) -> None:
        assert "already" in reason("blas_threads", multiplying_in_numpy(2.8, blas_threads=1))
        assert skip("blas_threads", multiplying_in_numpy(2.8, blas_threads=0)).impossible

    @pytest.mark.parametrize(("data", "phase"), [(0.2, "compute"), (0.7, "data")])
    def test_what_was_timed_of_the_whole_step_is_expected_where_most_of_it_is(
        self, data: float, phase: str
    ) -> None:
        phases = {"data": data, "forward": 0.4 * (1 - data), "backward": 0.6 * (1 - data)}
        expects, profile = (
            by_name("blas_threads").expects,
            replace(multiplying_in_numpy(1.5), phases=phases),
        )
        share, expected = max(data, 1 - data), expects(1, profile)
        assert expected.phase == phase
        left = math.exp(expected.log_mean)
        assert 1 - share + left * share == pytest.approx(1 / 1.5)
        assert expects(2, profile).log_mean == 0


class TestMicroBatches:
    same = with_model(on_a_cpu(), batch_norms=0)

    def test_are_offered_where_they_are_the_same_training(self) -> None:
        assert offered("micro_batches", self.same) == (1, 2, 4)

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"optimizers": 2}, "2 optimizers"),
            ({"backwards_per_step": 2.0}, "already"),
            ({"backwards_per_step": 0.5}, "0.50 backward passes"),
            ({"micro_batches": 2}, "already"),
            ({"scaler": True}, "GradScaler"),
            ({"loader": None}, "no DataLoader"),
        ],
    )
    def test_are_refused_where_they_might_not_be(self, changes: dict[str, Any], why: str) -> None:
        skipped = skip("micro_batches", with_seen(self.same, **changes))
        assert why in skipped.reason
        assert skipped.impossible

    def test_a_batch_of_three_parts_is_said_to_have_neither_halves_nor_quarters(self) -> None:
        said = reason("micro_batches", with_loader(self.same, batch_size=27))
        assert "a batch of 27 cannot be split into two or four equal parts" in said

    def test_a_short_step_that_was_not_told_apart_is_said_to_be_one(self) -> None:
        short = replace(self.same, step_seconds=0.004, phases={"other": 1.0})
        assert "a step takes 4.0 ms" in reason("micro_batches", short)

    def test_are_refused_for_batch_norm(self) -> None:
        normed = with_model(self.same, batch_norms=1)
        assert "batch norm" in reason("micro_batches", normed)

    def test_are_refused_where_weights_are_updated_by_hand(self) -> None:
        by_hand = with_seen(self.same, optimizers=0, optimizer=None)
        assert "no optimizer of torch's was seen to step" in reason("micro_batches", by_hand)
        several = with_seen(self.same, backwards_per_step=2.0)
        assert (
            reason("micro_batches", several)
            == "some steps, or all, have several backward passes already"
        )

    def test_are_refused_for_a_closure(self) -> None:
        assert "closure" in reason("micro_batches", with_optimizer(self.same, closure=True))

    def test_are_refused_for_an_iterable_dataset(self) -> None:
        assert "IterableDataset" in reason("micro_batches", with_loader(self.same, iterable=True))

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"batch_size": None}, "its loader has no batch_size"),
            ({"custom_batches": True}, "its batches are made by a batch_sampler of its own"),
        ],
    )
    def test_are_refused_for_batches_of_the_programs_own(
        self, changes: dict[str, Any], why: str
    ) -> None:
        assert why in reason("micro_batches", with_loader(self.same, **changes))

    def test_are_refused_where_batches_are_drawn_ahead(self) -> None:
        assert "drawn before" in reason("micro_batches", with_loader(self.same, ahead=1))

    def test_are_refused_where_a_framework_counts_the_batches(self) -> None:
        file = "/venv/lib/python3.11/site-packages/lightning/pytorch/core/module.py"
        places = Places(backward=Place(path=file, line=1))
        told = reason("micro_batches", with_seen(self.same, places=places))
        assert told.startswith("Lightning runs the loop")

    def test_are_equal_and_not_tiny(self) -> None:
        assert offered("micro_batches", with_loader(self.same, batch_size=16)) == (1, 2)
        assert "batch of 15" in reason("micro_batches", with_loader(self.same, batch_size=15))

    def test_are_left_out_where_a_step_is_short(self) -> None:
        assert "take 1.2 ms" in reason("micro_batches", replace(self.same, step_seconds=0.005))

    def test_are_for_a_gpu_short_of_memory(self) -> None:
        assert "less busy" in reason("micro_batches", with_model(on_a_gpu(), batch_norms=0))
        assert offered("micro_batches", short_of_memory(on_a_gpu())) == (1, 2, 4)

    @pytest.mark.parametrize(
        ("activations", "values"),
        [(30, (1, 2, 4)), (3, (1, 2, 4)), (1.5, (1, 8)), (2, (1, 4, 8)), (1, (1, 8))],
    )
    def test_are_as_few_as_fit_into_memory(
        self, activations: float, values: tuple[int, ...]
    ) -> None:
        # 38 of 40 GiB are full and 36.8 may be: a batch of 64 must lose 1.2 GiB of activations.
        full = replace(memory(0.95, 40 * GIB), activation_bytes=int(activations * GIB))
        given = with_loader(short_of_memory(on_a_gpu()), batch_size=64)
        assert offered("micro_batches", replace(given, memory=full)) == values


class TestOptimizer:
    busy = on_a_cpu(phases={"data": 0.1, "forward": 0.2, "backward": 0.2, "optimizer": 0.5})

    def test_left_to_torch_is_the_loop_on_a_cpu_and_foreach_on_a_gpu(self) -> None:
        assert offered("optimizer", self.busy) == ("forloop", "foreach", "fused")
        assert offered("optimizer", on_a_gpu()) == ("foreach", "fused")

    def test_is_left_out_where_it_takes_little(self) -> None:
        little = on_a_cpu(phases={"data": 0.0, "forward": 0.5, "optimizer": 0.004})
        assert reason("optimizer", little) == (
            "the optimizer takes 0.4 % of a step: there is too little to gain"
        )

    def test_shares_are_those_of_the_profile(self) -> None:
        phases = {"data": 0.67, "forward": 0.003, "backward": 0.005, "optimizer": 0.2}
        given = on_a_cpu(phases=phases, ceilings=())
        assert "backward are 0.8 % of a step" in reason("channels_last", given)

    def test_is_left_out_where_there_is_one_implementation(self) -> None:
        own = with_optimizer(self.busy, name="LBFGS", takes_fused=False, takes_foreach=False)
        assert reason("optimizer", own) == "LBFGS takes neither fused nor foreach as it is built"

    def test_one_that_could_be_fused_beside_the_leading_one_is_named(self) -> None:
        own = with_optimizer(self.busy, name="SparseAdam", takes_fused=False, takes_foreach=False)
        adam = with_optimizer(self.busy, name="Adam").seen.optimizer
        assert adam is not None
        assert reason("optimizer", with_seen(own, beside=(adam, adam))) == (
            "SparseAdam takes neither fused nor foreach as it is built (Adam, which steps beside "
            "it, is not set by itself)"
        )
        fused = with_optimizer(self.busy, name="Adam", fused=True).seen.optimizer
        assert reason("optimizer", with_seen(own, beside=(fused,))) == (
            "SparseAdam takes neither fused nor foreach as it is built"
        )

    def test_is_left_out_where_it_is_fused(self) -> None:
        assert "already" in reason("optimizer", with_optimizer(self.busy, fused=True))

    def test_without_fused_a_gpu_has_nothing_better(self) -> None:
        own = with_optimizer(on_a_gpu(), takes_fused=False)
        assert "batched already" in reason("optimizer", own)


class TestProcess:
    def test_threads_go_from_one_to_the_cores(self) -> None:
        assert offered("threads", on_a_cpu()) == (1, 2)
        assert offered("threads", with_machine(on_a_cpu(), cores=8)) == (1, 2, 4, 8)

    def test_threads_are_left_alone_beside_a_gpu_that_needs_one(self) -> None:
        assert "beside the GPU" in reason("threads", on_a_gpu())
        assert offered("threads", on_a_gpu(processors_used=6.0)) == (1, 2, 8, 16)

    def test_one_core_has_one_thread(self) -> None:
        single = with_seen(with_machine(on_a_cpu(), cores=1), threads=1)
        assert "one core" in reason("threads", single)

    def test_gradients_are_freed_where_they_are_zeroed(self) -> None:
        places = replace(on_a_cpu().seen.places, zero_grad=Place(path="train.py", line=1))
        zeroing = with_seen(on_a_cpu(), places=places)
        assert offered("set_to_none", with_seen(zeroing, set_to_none=False)) == (False, True)
        assert "already" in reason("set_to_none", zeroing)

    def test_gradients_that_the_program_zeroes_by_hand_are_its_own(self) -> None:
        assert "not seen to be called" in reason("set_to_none", on_a_cpu())
