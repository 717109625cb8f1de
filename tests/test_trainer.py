"""The Trainer: a plain loop's training, whatever its settings, and one that can be interrupted."""

import multiprocessing
import os
import signal
from collections import namedtuple
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from torch.utils.data import IterableDataset, TensorDataset

from autotune.errors import ProgramError, UsageError
from autotune.trainer import Callback, Epoch, Trainer
from autotune.trainer.feed import to_device
from autotune.trainer.step import make_endless
from autotune.workload.setup import Precision, Setup
from autotune.workload.system.blas import blas_threads, limit_blas_threads

BATCH_SIZE = 8
SAMPLES = 44  # five whole batches and a half

Pair = namedtuple("Pair", "x y")


def numbers(kind: torch.dtype = torch.int64) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(SAMPLES, 6, generator=generator)
    targets = torch.randint(3, (SAMPLES,), generator=generator)
    return TensorDataset(inputs, targets.to(kind))


def network(outputs: int = 3, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Dropout(dropout), nn.Linear(9, outputs))


def trainer(model: nn.Module | None = None, dataset: Any = None, **arguments: Any) -> Trainer:
    arguments = {"batch_size": BATCH_SIZE, "device": "cpu", **arguments}
    return Trainer(model or network(), numbers() if dataset is None else dataset, **arguments)


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes every Trainer run under a Setup, whatever its Config."""

    def use(setup: Setup) -> None:
        monkeypatch.setattr("autotune.trainer.trainer.setup_for", lambda config: setup)

    return use


class Stream(IterableDataset):  # type: ignore[type-arg]
    """The numbers, as they come."""

    def __iter__(self) -> Iterator[Any]:
        return iter(numbers())


class Saving(Callback):
    """Saves after some step."""

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        self.left = step

    def on_step(self, trainer: Trainer, loss: torch.Tensor) -> None:
        self.left -= 1
        if not self.left:
            trainer.save(self.path)


# --- training -------------------------------------------------------------------------------------


def test_it_trains_as_a_loop_written_by_hand() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen: list[torch.Tensor] = []

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        seen.extend(batch)
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    history = trainer(model, optimizer=optimizer, training_step=step).fit(2)

    by_hand = network()
    optimizer = torch.optim.SGD(by_hand.parameters(), lr=0.1)
    losses = []
    for inputs, targets in zip(seen[::2], seen[1::2], strict=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(by_hand(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert history.losses == losses
    assert len(history.losses) == 12


def test_it_says_what_it_trains_and_how() -> None:
    plain, tuned = trainer(), trainer(config={"num_workers": 0, "optimizer": "foreach"})
    assert repr(plain) == "Trainer(Sequential, batch_size=8, epoch=0, settings: as they are)"
    assert "settings: num_workers=0, optimizer='foreach'" in repr(tuned)


def test_a_larger_batch_is_trained_on_and_validation_keeps_its_own() -> None:
    sizes: list[tuple[bool, int]] = []

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        sizes.append((model.training, len(batch[0])))
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    larger = {"batch_size": 16, "micro_batches": 2}
    history = trainer(config=larger, training_step=step, validation_dataset=numbers()).fit(1)
    assert [size for training, size in sizes if training] == [8, 8, 8, 8, 8, 4]
    assert len(history.losses) == 3
    assert {size for training, size in sizes if not training} == {4}


def test_every_epoch_sees_every_sample_once_in_another_order() -> None:
    data = TensorDataset(torch.arange(SAMPLES))
    seen: list[int] = []

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        seen.extend(batch[0].tolist())
        return model(torch.zeros(6)).sum()

    trainer(dataset=data, training_step=step).fit(2)

    assert sorted(seen[:SAMPLES]) == sorted(seen[SAMPLES:]) == list(range(SAMPLES))
    assert seen[:SAMPLES] != seen[SAMPLES:]


def test_the_seed_alone_gives_the_order() -> None:
    torch.manual_seed(3)
    first = trainer(seed=4).fit(1).losses
    torch.manual_seed(5)

    assert trainer(seed=4).fit(1).losses == first
    assert trainer(seed=6).fit(1).losses != first


def test_the_mean_loss_of_an_epoch_counts_every_sample_alike() -> None:
    epoch = trainer(optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.0)).fit(1)

    inputs, targets = numbers().tensors
    loss = nn.functional.cross_entropy(network()(inputs), targets)
    assert epoch.epoch_losses == pytest.approx([loss.item()])


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_float_targets_are_met_in_the_mean_square(kind: torch.dtype) -> None:
    model = network(outputs=1)
    inputs, targets = numbers(kind).tensors
    loss = nn.functional.mse_loss(model(inputs).squeeze(), targets.float())

    assert trainer(model).evaluate(numbers(kind)) == pytest.approx(loss.item())


def test_a_model_that_returns_its_loss_is_given_the_dict() -> None:
    class Model(nn.Linear):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return SimpleNamespace(loss=nn.functional.cross_entropy(super().forward(x), y))

    samples = [{"x": x, "y": y} for x, y in numbers()]

    assert len(trainer(Model(6, 3), samples).fit(1).losses) == 6


def test_named_tuples_and_streams_are_batches_too() -> None:
    def collate(samples: list[Any]) -> Pair:
        return Pair(*(torch.stack(values) for values in zip(*samples, strict=True)))

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch.x), batch.y)

    assert len(trainer(dataset=Stream(), collate=collate, training_step=step).fit(1).losses) == 6


def test_gradients_are_clipped() -> None:
    model = network()
    free = [parameter.detach().clone() for parameter in model.parameters()]

    trainer(
        model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        clip_norm=1e-3,
        dataset=TensorDataset(*numbers()[:BATCH_SIZE]),
    ).fit(1)

    moved = [now - before for now, before in zip(model.parameters(), free, strict=True)]
    assert torch.linalg.vector_norm(torch.cat([part.flatten() for part in moved])) <= 1.001e-3


@pytest.mark.parametrize(("per", "rate"), [("epoch", 0.25), ("step", 0.5**12)])
def test_the_scheduler_steps_per_epoch_or_per_step(per: Any, rate: float) -> None:
    fitted = trainer(
        optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=1.0),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        scheduler_per=per,
    )
    fitted.fit(2)

    assert fitted.optimizer.param_groups[0]["lr"] == pytest.approx(rate)


def test_callbacks_hear_of_steps_and_epochs() -> None:
    epochs: list[Epoch] = []

    class Listener(Callback):
        def on_epoch(self, trainer: Trainer, epoch: Epoch) -> None:
            epochs.append(epoch)
            assert trainer.epoch == epoch.number

    heard: list[float] = []
    only_epochs = SimpleNamespace(on_epoch=lambda trainer, epoch: heard.append(-1.0))

    history = trainer(
        callbacks=iter([Listener(), lambda trainer, loss: heard.append(loss.item()), only_epochs]),
        validation_dataset=numbers(),
    ).fit(2)

    assert [loss for loss in heard if loss >= 0] == history.losses
    assert heard.count(-1.0) == 2
    assert epochs == history.epochs
    assert None not in history.validation_losses


def test_evaluating_leaves_the_model_as_it_was() -> None:
    model = network(dropout=0.5)
    model[2].eval()
    evaluated = trainer(model, validation_dataset=numbers())
    random = torch.get_rng_state()

    loss = evaluated.evaluate()

    assert loss == evaluated.evaluate(numbers())
    assert model.training
    assert not model[2].training
    assert torch.equal(random, torch.get_rng_state())


def test_a_line_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    trainer(progress=True).fit(1)
    shown = capsys.readouterr().err

    trainer().fit(1)

    assert "epoch 1  step 1/6  loss" in shown
    assert capsys.readouterr().err == ""


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setup",
    [
        Setup(micro_batches=4),
        Setup(micro_batches=2, set_to_none=False, non_blocking=True),
        Setup(optimizer={"fused": True}),
        Setup(optimizer={"foreach": True}),
        Setup(loader={"num_workers": 2, "persistent_workers": True, "prefetch_factor": 4}),
        Setup(precision=Precision(dtype="bfloat16")),
        Setup(precision=Precision(dtype="float16", scaled=True)),
    ],
    ids=str,
)
def test_settings_do_not_change_what_is_learned(set_up: Any, setup: Setup) -> None:
    plain = trainer(clip_norm=1.0, validation_dataset=numbers()).fit(2)

    set_up(setup)
    tuned = trainer(clip_norm=1.0, validation_dataset=numbers()).fit(2)

    rounding = 0.01 if setup.precision else 1e-5
    assert tuned.losses == pytest.approx(plain.losses, rel=rounding)
    assert tuned.validation_losses == pytest.approx(plain.validation_losses, rel=rounding)


def test_a_setup_reaches_the_loader_the_model_and_the_optimizer(set_up: Any) -> None:
    changed: list[nn.Module] = []
    threads = torch.get_num_threads()
    set_up(
        Setup(
            loader={"num_workers": 1},
            model=[changed.append],
            optimizer={"fused": True},
            process=[lambda: torch.set_num_threads(threads + 1)],
        )
    )
    loaders: list[int] = []

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        loaders.append(torch.get_num_threads())
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    made = trainer(training_step=step)
    made.fit(1)

    assert changed == [made.model]
    assert all(group["fused"] for group in made.optimizer.param_groups)
    assert set(loaders) == {threads + 1}
    assert torch.get_num_threads() == threads


def test_numpy_has_its_own_threads_again_after_a_fit(set_up: Any) -> None:
    own = blas_threads()
    set_up(Setup(process=[lambda: limit_blas_threads(1)]))
    meanwhile: list[int] = []

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        meanwhile.append(blas_threads())
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    trainer(training_step=step).fit(1)
    assert set(meanwhile) == {min(1, own)}
    assert blas_threads() == own


def test_a_loss_is_computed_in_float32_from_what_a_model_gives_in_bf16(set_up: Any) -> None:
    set_up(Setup(precision=Precision(dtype="bfloat16")))
    inside: list[torch.dtype] = []

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        given = model(batch[0])
        assert given.dtype == torch.float32
        return nn.functional.cross_entropy(given, batch[1])

    made = trainer(training_step=step, validation_dataset=numbers())
    made.model.register_forward_hook(lambda _model, _given, out: inside.append(out.dtype))
    made.fit(1)

    assert set(inside) == {torch.bfloat16}
    assert not [
        hook for hook in made.model._forward_hooks.values() if "autotune" in hook.__module__
    ]


def test_switches_thrown_by_a_change_to_the_model_are_put_back(set_up: Any) -> None:
    set_up(Setup(process=[_high], model=[lambda model: _high()]))

    trainer(validation_dataset=numbers()).evaluate()

    assert torch.get_float32_matmul_precision() == "highest"


def _high() -> None:
    torch.set_float32_matmul_precision("high")


def test_batches_are_the_same_with_any_number_of_workers(set_up: Any) -> None:
    alone = trainer().fit(2).losses
    set_up(Setup(loader={"num_workers": 2}))

    assert trainer().fit(2).losses == alone


def test_gradients_of_a_scaler_are_clipped_at_their_own_size(set_up: Any) -> None:
    set_up(Setup(precision=Precision(dtype="float16", scaled=True)))
    model = network()
    before = torch.cat([parameter.detach().flatten().clone() for parameter in model.parameters()])

    trainer(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), clip_norm=1e-3).fit(1)

    after = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    assert 0 < torch.linalg.vector_norm(after - before) <= 6.01e-3


@pytest.mark.parametrize("fused", [False, True])
def test_a_schedule_passes_over_the_step_that_a_scaler_left_out(set_up: Any, fused: bool) -> None:
    set_up(Setup(precision=Precision(dtype="float16", scaled=True)))
    weights: list[torch.Tensor] = []

    def overflowing(model: nn.Module, batch: Any) -> torch.Tensor:
        weights.append(next(model.parameters()).detach().clone())
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        return loss * 1e36 if len(weights) == 2 else loss

    model = network()
    fitted = trainer(
        model,
        training_step=overflowing,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0, fused=fused),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        scheduler_per="step",
    )
    fitted.fit(1)

    left_out = [torch.equal(one, other) for one, other in pairwise(weights)]
    assert left_out == [False, True, False, False, False]
    assert fitted.optimizer.param_groups[0]["lr"] == 0.5**5


@pytest.mark.parametrize(
    ("fused", "per", "waits"), [(False, "epoch", 0), (False, "step", 0), (True, "step", 6)]
)
def test_the_scale_is_waited_for_only_where_nothing_else_tells(
    set_up: Any, monkeypatch: pytest.MonkeyPatch, fused: bool, per: Any, waits: int
) -> None:
    set_up(Setup(precision=Precision(dtype="float16", scaled=True)))
    model = network()
    fitted = trainer(
        model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0, fused=fused),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        scheduler_per=per,
    )
    asked: list[float] = []
    get_scale = torch.amp.GradScaler.get_scale

    def counted(scaler: torch.amp.GradScaler) -> float:
        asked.append(get_scale(scaler))
        return asked[-1]

    monkeypatch.setattr(torch.amp.GradScaler, "get_scale", counted)
    fitted.fit(1)

    assert len(asked) == waits


def test_a_scale_is_compared_with_the_one_that_was_loaded(set_up: Any, tmp_path: Path) -> None:
    set_up(Setup(precision=Precision(dtype="float16", scaled=True)))

    def halving() -> Trainer:
        model = network()
        return trainer(
            model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0, fused=True),
            scheduler=lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
            scheduler_per="step",
        )

    small = halving()
    scaler = small._stepper.scaler
    scaler.load_state_dict(scaler.state_dict() | {"scale": 2.0})  # as after many overflows
    small.save(tmp_path / "checkpoint.pt")
    fitted = halving()
    fitted.load(tmp_path / "checkpoint.pt")
    fitted.fit(1)

    assert fitted.optimizer.param_groups[0]["lr"] == 0.5**6


def test_a_process_that_has_used_the_gpu_is_told_what_comes_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)

    with pytest.warns(UserWarning, match="before it starts"):
        late = trainer(config={"expandable_segments": True})
    late.fit(1)  # the environment has it by now: said once


def test_a_config_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text('[settings]\noptimizer = "fused"\nmicro_batches = 2\n')

    made = Trainer.from_config(path, network(), numbers(), batch_size=BATCH_SIZE, device="cpu")

    assert made.optimizer.param_groups[0]["fused"]
    assert len(made.fit(1).losses) == 6


# --- saving and going on --------------------------------------------------------------------------


def resumable(**arguments: Any) -> Trainer:
    return trainer(
        network(dropout=0.5),
        arguments.pop("dataset", None),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 100),
        scheduler_per="step",
        **arguments,
    )


@pytest.mark.parametrize("step", range(1, 19, 4))
@pytest.mark.parametrize("dataset", [numbers(), Stream()], ids=["map", "stream"])
def test_a_resumed_training_has_the_losses_of_one_that_was_not(
    tmp_path: Path, step: int, dataset: Any
) -> None:
    path = tmp_path / "checkpoint.pt"
    whole = resumable(dataset=dataset, callbacks=[Saving(path, step)], validation_dataset=numbers())
    uninterrupted = whole.fit(3)

    resumed = resumable(dataset=dataset, seed=77, validation_dataset=numbers())
    resumed.load(path)
    done = resumed.epoch
    rest = resumed.fit(3 - done)

    assert rest.losses == uninterrupted.losses[step:]
    assert rest.epoch_losses == uninterrupted.epoch_losses[done:]
    assert rest.validation_losses == uninterrupted.validation_losses[done:]
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_training_goes_on_between_epochs_too(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    uninterrupted = resumable().fit(3)
    first = resumable()
    first.fit(2)
    first.save(path)

    second = resumable()
    torch.rand(5)
    second.load(path)

    assert second.fit(1).losses == uninterrupted.losses[12:]
    assert second.epoch == 3


def test_settings_survive_a_checkpoint_of_other_settings(set_up: Any, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    plain = trainer()
    plain.fit(1)
    plain.save(path)
    expected = plain.fit(1).losses

    set_up(Setup(optimizer={"fused": True}, micro_batches=2))
    tuned = trainer()
    tuned.load(path)

    assert all(group["fused"] for group in tuned.optimizer.param_groups)
    assert tuned.fit(1).losses == pytest.approx(expected, rel=1e-5)


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "checkpoint.pt"
    saved = trainer()
    saved.save(path)
    before = path.read_bytes()
    saved.model.register_forward_hook(lambda *args: None)
    saved.scheduler = SimpleNamespace(state_dict=lambda: lambda: None)  # cannot be pickled

    with pytest.raises(Exception, match="pickle"):
        saved.save(path)

    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_where_a_checkpoint_cannot_be_written_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    with pytest.raises(UsageError, match=r"checkpoints cannot be written: Is a directory"):
        trainer().save(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_disk_that_is_full_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint.pt"
    own = Path.open
    monkeypatch.setattr(Path, "open", lambda _, mode: own(Path("/dev/full"), mode))
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        trainer().save(path)
    assert not path.exists()


def test_others_may_read_a_checkpoint_as_they_may_any_file(tmp_path: Path) -> None:
    path, other = tmp_path / "checkpoint.pt", tmp_path / "other"
    trainer().save(path)
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode


def test_an_interrupt_waits_for_the_step_and_the_rest_is_not_lost() -> None:
    uninterrupted = resumable().fit(2)

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        if len(interrupted.history.losses) == 2 and not first:
            signal.raise_signal(signal.SIGINT)
        return loss

    first: list[float] = []
    interrupted = resumable(training_step=step)
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(2)
    first += interrupted.history.losses
    rest = interrupted.fit(2)

    assert first == uninterrupted.losses[:3]
    assert rest.losses == uninterrupted.losses[3:]
    assert rest.epoch_losses == uninterrupted.epoch_losses
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- what goes wrong ------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_names_its_step() -> None:
    data = TensorDataset(torch.tensor([[1.0] * 6] * 3), torch.tensor([1.0, 1.0, float("inf")]))
    with pytest.raises(ProgramError, match=r"the loss is (inf|nan) at step \d of epoch 1"):
        trainer(network(outputs=1), data, batch_size=1).fit(2)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda loss: loss.expand(3), r"a tensor of shape \[3\]"),
        (lambda loss: loss.item(), "float"),
    ],
)
def test_a_training_step_must_return_a_scalar(returned: Any, message: str) -> None:
    def step(model: nn.Module, batch: Any) -> Any:
        return returned(model(batch[0]).sum())

    with pytest.raises(UsageError, match=f"training_step returned {message}, not a scalar loss"):
        trainer(training_step=step).fit(1)


class Nothing(IterableDataset):  # type: ignore[type-arg]
    """No samples."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


@pytest.mark.parametrize("dataset", [[], Nothing()], ids=["map", "stream"])
def test_there_must_be_a_sample(dataset: Any) -> None:
    with pytest.raises(UsageError, match="empty"):
        trainer(dataset=dataset).fit(1)
    with pytest.raises(UsageError, match="empty"):
        trainer().evaluate(dataset)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataset": 5}, "the dataset is int, which has no length or no items"),
        ({"training_step": "x"}, "training_step is str, not a function"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": "8"}, "batch_size is '8'"),
        ({"clip_norm": 0.0}, "clip_norm is 0.0"),
        ({"device": "tpu"}, "device is 'tpu': Expected one of cpu"),
        ({"optimizer": torch.optim.SGD}, "optimizer is the class SGD"),
        (
            {"optimizer": torch.optim.SGD(network().parameters(), lr=0.1)},
            "the optimizer has none of the model's weights",
        ),
        ({"model": network().requires_grad_(False)}, "no weights that take gradients"),
        (
            {"callbacks": [print, SimpleNamespace(on_epoch_end=print)]},
            "one of callbacks is SimpleNamespace, which has neither on_step nor on_epoch",
        ),
    ],
)
def test_what_cannot_be_trained_is_said_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        trainer(**arguments)


class OnDevice:
    """A batch that notes how it is copied, by a `to` that takes the device only."""

    def to(self, device: torch.device) -> tuple[object, ...]:
        return (device,)


class Overlapping(OnDevice):
    def to(self, device: torch.device, non_blocking: bool = False) -> tuple[object, ...]:
        return device, non_blocking


class Built:
    """A batch whose `to` does not tell what it takes, as one of C."""

    to = str


def test_a_batch_of_a_class_of_its_own_is_copied_as_it_takes_it() -> None:
    cpu = torch.device("cpu")
    given = {"x": OnDevice(), "y": [Overlapping()], "z": Built()}
    copied = to_device(given, cpu, non_blocking=True)
    assert copied == {"x": (cpu,), "y": [(cpu, True)], "z": "cpu"}
    packed = to_device(pack_sequence([torch.zeros(2)]), cpu, non_blocking=True)
    assert isinstance(packed, PackedSequence)


@pytest.mark.parametrize("epochs", [-1, 1.5, "2", True])
def test_epochs_are_a_whole_number(epochs: Any) -> None:
    with pytest.raises(UsageError, match="epochs is "):
        trainer().fit(epochs)


def test_a_batch_must_split_evenly(set_up: Any) -> None:
    set_up(Setup(micro_batches=3))
    with pytest.raises(UsageError, match="a batch of 8 cannot be trained as 3 equal"):
        trainer().fit(1)


def test_evaluation_needs_data() -> None:
    with pytest.raises(UsageError, match="nothing to evaluate on"):
        trainer().evaluate()


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    with pytest.raises(UsageError, match="cannot be read"):
        trainer().load(path)
    path.write_text("weights")
    with pytest.raises(UsageError, match=r"checkpoint\.pt"):
        trainer().load(path)
    torch.save({"model": {}}, path)
    with pytest.raises(UsageError, match="not a checkpoint of a Trainer"):
        trainer().load(path)


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    trainer(callbacks=[Saving(path, 2)]).fit(1)

    with pytest.raises(UsageError, match="another model"):
        trainer(network(outputs=4)).load(path)
    with pytest.raises(UsageError, match="without a scheduler"):
        resumable().load(path)
    with pytest.raises(UsageError, match="batches of 8"):
        trainer(batch_size=4).load(path)


def test_more_workers_than_cores_are_no_reason_to_warn(set_up: Any) -> None:
    set_up(Setup(loader={"num_workers": 1000}))

    trainer()._feed(numbers())


def test_no_loader_is_left_running(set_up: Any) -> None:
    set_up(Setup(loader={"num_workers": 1, "persistent_workers": True}))
    workers: list[int] = []

    trainer(callbacks=[lambda trainer, loss: workers.append(_children())]).fit(1)

    assert max(workers) == 1
    assert _children() == 0


def _children() -> int:
    return len(multiprocessing.active_children())


def test_validation_data_of_another_kind_have_no_workers(set_up: Any) -> None:
    set_up(Setup(loader={"num_workers": 1}))
    children: list[int] = []

    class Other(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            children.append(os.getpid())
            return super().__getitem__(index)

    trainer(validation_dataset=Other(*numbers().tensors)).evaluate()

    assert set(children) == {os.getpid()}


def test_what_a_model_makes_while_it_is_evaluated_serves_its_training() -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 3)
            self.scale: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.scale is None:
                self.scale = torch.ones(3)
            return self.linear(x) * self.scale

    made = trainer(Cached(), validation_dataset=numbers())
    made.evaluate()
    made.fit(1)


def test_a_checkpoint_that_is_refused_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    other = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Dropout(), nn.Linear(9, 4))
    trainer(other, numbers()).save(tmp_path / "other.pt")
    made = trainer()
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    with pytest.raises(UsageError, match="another model"):
        made.load(tmp_path / "other.pt")
    after = made.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_plateau_is_waited_for_by_epochs() -> None:
    with pytest.raises(UsageError, match="ReduceLROnPlateau"):
        trainer(scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau, scheduler_per="step")


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5),
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 5),
    ],
    ids=["one cycle", "falling"],
)
def test_a_measured_training_outlives_its_schedule(make: Any, tmp_path: Path) -> None:
    made = trainer(scheduler=make, scheduler_per="step")
    assert made.scheduler is not None
    make_endless(made.scheduler, made.optimizer)
    rates: list[float] = []
    made._callbacks = (
        lambda trainer, _loss: rates.append(trainer.optimizer.param_groups[0]["lr"]),
    )
    made.fit(6)
    made.save(tmp_path / "checkpoint.pt")
    assert len(rates) > 12
    assert min(rates) >= 0
    assert max(rates[6:]) == pytest.approx(max(rates[:6]), rel=0.3)


def test_a_schedule_of_a_rate_that_is_a_tensor_begins_anew_too() -> None:
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=torch.tensor(0.1))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 4)
    make_endless(schedule, optimizer)
    rates = []
    for _ in range(10):
        weight.grad = torch.ones(3)
        optimizer.step()
        schedule.step()
        rates.append(float(optimizer.param_groups[0]["lr"]))
    assert rates[4] == pytest.approx(0.1) and min(rates) >= 0
    assert rates[5:] == pytest.approx(rates[:5])
