"""Live parts of a program as plain data."""

import functools
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
)
from torch.utils.hooks import RemovableHandle

from autotune.workload.inspect import (
    describe_loader,
    describe_model,
    gpus_of,
    length_of,
)
from autotune.workload.parts.described import describe_optimizer
from autotune.workload.randomness.stillness import random_state


def convnet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.1), nn.Dropout(0.0), nn.Conv2d(4, 2, 1)
    )


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)  # type: ignore[no-any-return]


class Samples(Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


class Batches(Samples):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return indices


# What torch.compile imports warns of its own use of torch.jit.
compiles = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


class TestModel:
    @pytest.mark.parametrize(
        "layer",
        [nn.Conv1d(2, 2, 3), nn.Conv3d(2, 2, 3), nn.ConvTranspose2d(2, 2, 3)],
    )
    def test_convolutions_in_other_dimensions_are_told_apart(self, layer: nn.Module) -> None:
        seen = describe_model(nn.Sequential(nn.Linear(2, 2), layer))
        assert (seen.convolutions, seen.other_convolutions, seen.convolves) == (0, 1, True)
        assert not describe_model(nn.Linear(2, 2)).convolves

    def test_counts_what_knobs_act_on(self) -> None:
        seen = describe_model(convnet())
        assert (seen.convolutions, seen.batch_norms, seen.dropouts) == (2, 1, 1)
        assert (seen.other_convolutions, seen.flat_norms) == (0, 0)
        assert seen.parameters == 3 * 4 * 9 + 4 + 8 + 8 + 2
        assert seen.parameter_bytes == 4 * seen.parameters
        assert seen.buffer_bytes == 4 * 8 + 8
        assert (seen.name, seen.dtype, seen.device) == ("Sequential", "float32", "cpu")

    @pytest.mark.parametrize(
        ("of_a_block", "moves"),
        [
            (lambda: nn.LayerNorm(2), False),
            (lambda: nn.BatchNorm1d(2), True),
            (lambda: nn.BatchNorm1d(2, track_running_stats=False), False),
            (lambda: nn.InstanceNorm1d(2), False),
            (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), False),
            (lambda: nn.utils.spectral_norm(nn.Linear(2, 2)), True),
            (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2)), True),
        ],
    )
    def test_blocks_may_keep_what_a_forward_pass_moves_on(
        self, of_a_block: Callable[[], nn.Module], moves: bool
    ) -> None:
        blocks = (nn.Sequential(nn.Linear(2, 2), of_a_block()) for _ in range(2))
        seen = describe_model(nn.Sequential(nn.ModuleList(blocks), nn.BatchNorm1d(2)))
        assert len(seen.blocks) == 2
        assert seen.moving_blocks == moves
        assert seen.flat_norms >= 1

    def test_weights_that_are_not_trained_are_told_and_tables_among_them(self) -> None:
        model = nn.ModuleDict(
            {
                "words": nn.Embedding(10, 4),
                "backbone": nn.Linear(4, 8, bias=False),
                "head": nn.Linear(8, 2, bias=False),
            }
        )
        for name in ("words", "backbone"):
            model[name].requires_grad_(False)
        seen = describe_model(model)
        assert (seen.frozen_bytes, seen.frozen_table_bytes) == (4 * (40 + 32), 4 * 40)
        assert seen.parameter_bytes - seen.frozen_bytes == 4 * 16
        assert not seen.sparse_gradients
        assert describe_model(nn.EmbeddingBag(10, 4, sparse=True)).sparse_gradients
        optimizer = describe_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        assert (optimizer.parameters, optimizer.trained_bytes) == (40 + 32 + 16, 4 * 16)

    @pytest.mark.parametrize("momentum", [0.0, 0.9])
    def test_weights_that_had_a_gradient_are_counted(self, momentum: float) -> None:
        used, unused = nn.Linear(4, 2, bias=False), nn.Linear(8, 2)
        weights = [*used.parameters(), *unused.parameters()]
        optimizer = torch.optim.SGD(weights, lr=0.1, momentum=momentum)
        assert describe_optimizer(optimizer).updated == 0
        used(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        assert describe_optimizer(optimizer).updated == 8
        optimizer.zero_grad()
        assert describe_optimizer(optimizer).updated == 8 * (momentum > 0)
        assert describe_optimizer(optimizer).parameters == 8 + 18

    def test_gpus_that_a_model_splits_its_batches_among_are_told(self) -> None:
        split = nn.DataParallel(nn.Linear(2, 2))
        split.device_ids = [0, 1]
        assert gpus_of([nn.Sequential(split)]) == {torch.device("cuda", each) for each in (0, 1)}
        assert gpus_of([nn.Linear(2, 2)]) == set()

    def test_a_model_without_parameters_has_no_dtype(self) -> None:
        assert describe_model(nn.ReLU()).dtype == ""

    def test_channels_last_is_seen_in_the_weights(self) -> None:
        model = convnet()
        assert not describe_model(model).channels_last
        model.to(memory_format=torch.channels_last)
        assert describe_model(model).channels_last
        model[0].to(memory_format=torch.contiguous_format)
        assert not describe_model(model).channels_last

    def test_weights_that_lie_both_ways_tell_nothing(self) -> None:
        pointwise = nn.Sequential(nn.Conv2d(3, 4, 1)).to(memory_format=torch.channels_last)
        assert describe_model(pointwise).channels_last is None

    def test_a_weight_that_a_hook_makes_before_each_call_is_none_as_yet(self) -> None:
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Embedding(3, 4))
        for each in model:
            each.register_parameter("weight_orig", each._parameters.pop("weight"))
        seen = describe_model(model)
        assert (seen.convolutions, seen.channels_last, seen.frozen_table_bytes) == (1, None, 0)

    def test_tensors_of_five_dimensions_are_noted(self) -> None:
        model = nn.Sequential(nn.Conv2d(3, 4, 3))
        model.register_buffer("grid", torch.zeros(1, 1, 1, 1, 2))
        assert describe_model(model).five_dimensional
        with pytest.raises(RuntimeError, match="rank 4"):
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def test_weights_that_are_parts_of_one_vector_are_noted(self) -> None:
        model = convnet()
        assert not describe_model(model).weights_elsewhere
        vector = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        nn.utils.vector_to_parameters(vector, model.parameters())
        assert describe_model(model).weights_elsewhere
        model.requires_grad_(False)
        assert not describe_model(model).weights_elsewhere

    def test_weights_that_the_program_keeps_by_another_tensor_are_noted(self) -> None:
        model = convnet()
        kept = [each.weight.data.flatten(1) for each in model if isinstance(each, nn.Conv2d)]
        assert describe_model(model).weights_elsewhere
        kept = [each.clone() for each in kept]
        assert not describe_model(model).weights_elsewhere
        model.share_memory()
        assert describe_model(model).weights_elsewhere

    def test_weights_that_two_parameters_share_are_noted(self) -> None:
        there, back = nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 3, 3)
        model = nn.Sequential(there, back)
        assert not describe_model(model).weights_elsewhere
        back.weight.data = there.weight.data  # still two parameters
        assert describe_model(model).weights_elsewhere
        back.weight = there.weight  # one: conversions keep it so
        assert not describe_model(model).weights_elsewhere

    @compiles
    @pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
    def test_the_mode_of_compiling_is_seen(self, mode: str) -> None:
        model = Net()
        assert describe_model(model).compiled == "off"
        wrapped = torch.compile(model, mode=mode)
        assert describe_model(wrapped).compiled == mode
        assert describe_model(wrapped).name == "Net"
        assert describe_model(model).compiled == "off"
        model.compile(mode=mode)
        assert describe_model(model).compiled == mode

    @pytest.mark.parametrize(
        "hooked",
        [
            lambda model: model[0].weight.register_hook(torch.sign),
            lambda model: model[0].weight.register_post_accumulate_grad_hook(print),
            lambda model: model.register_full_backward_hook(print),
        ],
        ids=["parameter", "accumulated", "module"],
    )
    def test_hooks_on_gradients_are_seen_as_long_as_they_are_there(
        self, hooked: Callable[[nn.Module], RemovableHandle]
    ) -> None:
        model = convnet()
        hook = hooked(model)
        assert describe_model(model).gradient_hooks
        hook.remove()
        assert not describe_model(model).gradient_hooks

    @pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
    def test_what_torchscript_runs_is_told_from_that(self) -> None:
        assert describe_model(torch.jit.script(nn.Linear(4, 2))).scripted

    @compiles
    def test_a_module_of_torchs_own_is_not_compiled_in_place(self) -> None:
        model = convnet()
        assert describe_model(model).of_torch and not describe_model(model).scripted
        model.compile()
        assert describe_model(model).compiled == "off"
        assert describe_model(torch.compile(model)).compiled == "default"

    @compiles
    def test_torch_really_passes_over_its_own_modules(self) -> None:
        calls: list[object] = []

        def backend(graph: torch.fx.GraphModule, _inputs: object) -> object:
            calls.append(graph)
            return graph.forward

        for model in (nn.Sequential(nn.Linear(2, 2)), Net()):
            model.compile(backend=backend)
            model(torch.ones(1, 2))
        assert len(calls) == 1

    @compiles
    def test_a_hook_round_the_compiled_call_is_looked_through(self) -> None:
        model = Net()
        model.compile(mode="reduce-overhead")
        inner = model._compiled_call_impl

        def timed(*args: object) -> object:
            return inner(*args)

        timed.autotune_inner = inner  # type: ignore[attr-defined]
        model._compiled_call_impl = timed
        assert describe_model(model).compiled == "reduce-overhead"
        timed.autotune_inner = model._call_impl  # type: ignore[attr-defined]
        assert describe_model(model).compiled == "off"

    @compiles
    def test_a_compiled_part_is_seen(self) -> None:
        model = nn.Sequential(Net(), nn.ReLU())
        model[0].compile()
        assert describe_model(model).compiled == "default"

    @compiles
    def test_another_compiler_counts_as_compiled(self) -> None:
        model = Net()
        model.compile(backend="eager")
        assert describe_model(model).compiled == "default"

    def test_wrapped_blocks_are_seen(self) -> None:
        model = nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(4)))
        assert describe_model(model).checkpointed == 0
        for block, counted in ((3, -1), (2, -2), (0, 4), (1, 4)):
            own = model[block].forward
            model[block].forward = functools.partial(checkpoint, own, use_reentrant=False)
            assert describe_model(model).checkpointed == counted

    def test_checkpointing_the_way_of_transformers_is_seen(self) -> None:
        model = nn.Sequential(nn.Linear(2, 2))
        model[0].gradient_checkpointing = True
        assert describe_model(model).checkpointed == 1


class TestOptimizer:
    def test_what_is_left_to_torch_is_none(self) -> None:
        seen = describe_optimizer(torch.optim.AdamW(nn.Linear(2, 2).parameters()))
        assert (seen.name, seen.fused, seen.foreach) == ("AdamW", None, None)
        assert seen.takes_fused
        assert seen.takes_foreach

    def test_what_is_set_is_seen(self) -> None:
        parameters = list(nn.Linear(2, 2).parameters())
        assert describe_optimizer(torch.optim.SGD(parameters, fused=True)).fused
        assert describe_optimizer(torch.optim.SGD(parameters, foreach=True)).foreach

    def test_an_optimizer_with_one_implementation_takes_neither(self) -> None:
        seen = describe_optimizer(torch.optim.LBFGS(nn.Linear(2, 2).parameters()), closure=True)
        assert not seen.takes_fused
        assert not seen.takes_foreach
        assert seen.closure

    def test_a_differentiable_optimizer_takes_neither(self) -> None:
        optimizer = torch.optim.Adam(nn.Linear(2, 2).parameters(), differentiable=True)
        assert not describe_optimizer(optimizer).takes_fused

    def test_its_state_is_weighed(self) -> None:
        model = nn.Linear(3, 1, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model(torch.ones(1, 3)).sum().backward()
        assert describe_optimizer(optimizer).state_bytes == 0
        optimizer.step()
        assert describe_optimizer(optimizer).state_bytes == 3 * 4


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


class TestLoader:
    def test_is_seen_as_it_was_built(self) -> None:
        loader = DataLoader(list(range(10)), batch_size=3, shuffle=True)  # type: ignore[arg-type]
        seen = describe_loader(loader)
        assert (seen.dataset, seen.batch_size, seen.length, seen.dataset_length) == (
            "list",
            3,
            4,
            10,
        )
        assert (seen.num_workers, seen.prefetch_factor, seen.persistent_workers) == (0, None, False)
        assert seen.shuffle
        assert not seen.custom_batches
        assert not seen.iterable

    def test_workers_prefetch_two_batches_unless_told_otherwise(self) -> None:
        loader = DataLoader([1, 2], num_workers=1, persistent_workers=True)  # type: ignore[arg-type]
        seen = describe_loader(loader)
        assert (seen.num_workers, seen.prefetch_factor, seen.persistent_workers) == (1, 2, True)

    def test_an_iterable_dataset_has_no_length(self) -> None:
        seen = describe_loader(DataLoader(Stream(), batch_size=2))
        assert seen.iterable
        assert (seen.length, seen.dataset_length) == (None, None)
        assert not seen.shuffle

    def test_batches_of_the_programs_own_are_seen(self) -> None:
        data = [1, 2, 3]
        sampler = BatchSampler(SequentialSampler(data), 2, drop_last=False)
        assert describe_loader(DataLoader(data, batch_sampler=sampler)).custom_batches  # type: ignore[arg-type]
        assert describe_loader(DataLoader(data, batch_size=None)).custom_batches  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("loader", "at_once"),
        [
            (DataLoader(Samples(), batch_size=2), False),
            (DataLoader(Batches(), batch_size=2), True),
            (DataLoader(Subset(Samples(), [1]), batch_size=2), False),
            (DataLoader(Subset(Batches(), [1]), batch_size=2), True),
            (DataLoader(Samples(), batch_size=None), True),
            (DataLoader(Stream(), batch_size=2), True),
        ],
        ids=["samples", "batches", "some samples", "batches of some", "one item a batch", "stream"],
    )
    def test_whether_a_batch_is_read_in_one_call(
        self, loader: "DataLoader[int]", at_once: bool
    ) -> None:
        assert describe_loader(loader).reads_at_once is at_once


def test_asking_how_long_something_is_uses_up_no_random_numbers() -> None:
    class Drawn:
        def __len__(self) -> int:
            return int(torch.randint(9, ())) + random.randrange(9) + int(np.random.randint(9))

    before = random_state()
    length_of(Drawn())
    after = random_state()
    assert after[0] == before[0] and torch.equal(after[1], before[1])
    assert np.array_equal(after[2][1], before[2][1]) and after[2][2] == before[2][2]
