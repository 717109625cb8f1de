"""A loop that is a framework's is told its settings by the framework's own arguments."""

import pytest

from autotune.knobs.knob import Value
from autotune.outputs.framework import in_its_framework
from autotune.source.edits import EditOutcome, LoaderArgument, Place, Places
from tests import builders

PACKAGES = "/venv/lib/python3.11/site-packages"


def hand_step(knob: str, value: Value, *loop: str, status: str = "refused") -> str:
    """What is to be done by hand for `knob` where forward and backward are in the files `loop`."""
    forward, backward = (Place(path=path, line=1) for path in loop)
    outcome = EditOutcome(
        knob=knob,
        edit=LoaderArgument(name=knob, code=str(value)),
        status=status,
        hand_step="the line",
    )
    seen = builders.seen(places=Places(forward=forward, backward=backward))
    (answer,) = in_its_framework([outcome], {knob: value}, seen)
    return answer.hand_step


LIGHTNING = ("/project/train.py", f"{PACKAGES}/lightning/pytorch/core/module.py")
TRANSFORMERS = (f"{PACKAGES}/transformers/trainer.py", f"{PACKAGES}/accelerate/accelerator.py")
ACCELERATE = ("/project/train.py", f"{PACKAGES}/accelerate/accelerator.py")


@pytest.mark.parametrize(
    ("knob", "value", "loop", "told"),
    [
        ("precision", "bf16", LIGHTNING, 'Trainer(precision="bf16-mixed")'),
        ("cudnn_benchmark", True, LIGHTNING, "Trainer(benchmark=True)"),
        ("num_workers", 4, TRANSFORMERS, "TrainingArguments(dataloader_num_workers=4)"),
        ("precision", "bf16", TRANSFORMERS, "TrainingArguments(bf16=True)"),
        (
            "non_blocking",
            True,
            TRANSFORMERS,
            'TrainingArguments(accelerator_config={"non_blocking": True})',
        ),
        ("precision", "fp16", ACCELERATE, 'Accelerator(mixed_precision="fp16")'),
        ("set_to_none", True, ACCELERATE, ""),  # it has no argument for it
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
