"""A loop that is a framework's is told its settings by the framework's own arguments."""

import pytest

from autotune.knobs.knob import Value
from autotune.outputs.framework import in_its_framework
from autotune.source.edits import (
    EditOutcome,
    LoaderArgument,
    ModelStatement,
    OptimizerArgument,
    Place,
    Places,
)
from tests import builders

PACKAGES = "/venv/lib/python3.11/site-packages"


def in_words(
    knob: str, value: Value, places: Places, *, status: str = "refused", given: str = "the line"
) -> EditOutcome:
    """What is said of `knob`, whose hand step was `given`, for a program of these `places`."""
    outcome = EditOutcome(
        knob=knob,
        edit=LoaderArgument(name=knob, code=str(value)),
        status=status,
        reason=f"the training DataLoader is in {PACKAGES}/timm/data/loader.py, outside the files",
        hand_step=given,
    )
    (answer,) = in_its_framework([outcome], {knob: value}, builders.seen(places=places))
    return answer


def hand_step(knob: str, value: Value, *loop: str, **more: str) -> str:
    """What is to be done by hand for `knob` where forward and backward are in the files `loop`."""
    forward, backward = (Place(path=path, line=1) for path in loop)
    return in_words(knob, value, Places(forward=forward, backward=backward), **more).hand_step


LIGHTNING = ("/project/train.py", f"{PACKAGES}/lightning/pytorch/core/module.py")
TRANSFORMERS = (f"{PACKAGES}/transformers/trainer.py", f"{PACKAGES}/accelerate/accelerator.py")
FABRIC = ("/project/train.py", f"{PACKAGES}/lightning/fabric/fabric.py")
IGNITE = ("/project/train.py", f"{PACKAGES}/ignite/engine/__init__.py")
ACCELERATE = ("/project/train.py", f"{PACKAGES}/accelerate/accelerator.py")

IGNITE_PARTS = (
    "create_supervised_trainer(..., gradient_accumulation_steps=2), and a batch size 2 times "
    "smaller"
)

IN_ALL = "TrainingArguments(per_device_train_batch_size=64), or that divided by the number of GPUs"


@pytest.mark.parametrize(
    ("knob", "value", "loop", "told"),
    [
        ("precision", "bf16", LIGHTNING, 'Trainer(precision="bf16-mixed")'),
        ("cudnn_benchmark", True, LIGHTNING, "Trainer(benchmark=True)"),
        ("num_workers", 4, TRANSFORMERS, "TrainingArguments(dataloader_num_workers=4)"),
        (
            "optimizer",
            "fused",
            TRANSFORMERS,
            'TrainingArguments(optim="adamw_torch_fused"), where the optimizer is AdamW',
        ),
        (
            "checkpointing",
            2,
            TRANSFORMERS,
            "TrainingArguments(gradient_checkpointing=True), which is of all blocks",
        ),
        (
            "batch_size",
            64,
            TRANSFORMERS,
            IN_ALL,
        ),
        ("batch_size", 64, LIGHTNING, "batch_size=64 where your DataLoader is built"),
        ("precision", "bf16", TRANSFORMERS, "TrainingArguments(bf16=True, use_cpu=True)"),
        (
            "non_blocking",
            True,
            TRANSFORMERS,
            'TrainingArguments(accelerator_config={"non_blocking": True})',
        ),
        ("precision", "fp16", ACCELERATE, 'Accelerator(mixed_precision="fp16")'),
        ("precision", "bf16", FABRIC, 'Fabric(precision="bf16-mixed")'),
        (
            "micro_batches",
            2,
            IGNITE,
            IGNITE_PARTS,
        ),
        ("set_to_none", True, ACCELERATE, "the line"),  # it has no argument for it
    ],
)
def test_a_framework_has_its_own_word_for_a_setting(
    knob: str, value: Value, loop: tuple[str, str], told: str
) -> None:
    assert hand_step(knob, value, *loop) == told


def test_a_loop_of_the_users_own_keeps_its_line() -> None:
    own = "/home/ada/transformers/examples/train.py"
    assert hand_step("precision", "bf16", own, own) == "the line"


def test_what_the_patch_has_done_is_left_as_it_is() -> None:
    assert hand_step("num_workers", 4, *TRANSFORMERS, status="done") == "the line"


def test_nobody_is_told_to_change_a_librarys_file() -> None:
    inside = f"{PACKAGES}/accelerate/optimizer.py:118: optimizer.zero_grad()"
    assert hand_step("set_to_none", True, *ACCELERATE, given=inside) == ""


def test_a_loader_that_a_library_builds_is_to_be_asked_for_where_it_is_called() -> None:
    factory = Place(path=f"{PACKAGES}/timm/data/loader.py", line=467)
    caller = Place(path="/project/train.py", line=52)
    answer = in_words("num_workers", 4, Places(loader=factory, loader_caller=caller))

    assert answer.hand_step == (
        "/project/train.py:52: num_workers=4, if what is called there takes that"
    )
    assert answer.reason == "the training DataLoader is in timm/data/loader.py, outside the files"


def test_a_model_is_changed_before_the_line_that_has_a_library_build_its_optimizer() -> None:
    outcome = EditOutcome(
        knob="channels_last",
        edit=ModelStatement(code="{model}.to(memory_format=torch.channels_last)"),
        status="refused",
        hand_step=f"{PACKAGES}/timm/optim/_optim_factory.py:342: before this statement: model.to()",
    )
    seen = builders.seen(places=Places(optimizer_caller=Place(path="/project/train.py", line=49)))
    (answer,) = in_its_framework([outcome], {"channels_last": True}, seen)

    assert answer.hand_step == "/project/train.py:49: before this statement: model.to()"


def test_the_line_that_starts_a_framework_is_not_taken_for_one_that_builds_an_optimizer() -> None:
    outcome = EditOutcome(
        knob="optimizer",
        edit=OptimizerArgument(name="foreach", code="True"),
        status="refused",
        hand_step=f"{PACKAGES}/transformers/trainer.py:1326: foreach=True",
    )
    forward, backward = (Place(path=path, line=1) for path in TRANSFORMERS)
    started = Place(path="/project/train.py", line=35)
    places = Places(forward=forward, backward=backward, optimizer_caller=started)
    (answer,) = in_its_framework([outcome], {"optimizer": "foreach"}, builders.seen(places=places))

    assert answer.hand_step == ""
