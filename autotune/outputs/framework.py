"""What a training framework calls the settings, for programs whose loop is the framework's: an edit
that their source has no place for is an argument there.

Checked against transformers 5.23, lightning 2.6, accelerate 1.15 and pytorch-ignite 0.5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.knobs.knob import Config, Value
from autotune.source.edits import (
    EditOutcome,
    LoaderArgument,
    ModelStatement,
    OptimizerArgument,
    Places,
)
from autotune.workload.program.framework import (
    ACCELERATE,
    FABRIC,
    IGNITE,
    LIGHTNING,
    TRANSFORMERS,
    framework_of,
    is_installed,
    short_path,
)
from autotune.workload.seen import Seen

_OWN_LOADER = {
    name: f"{name}={{value}} where your DataLoader is built"
    for name in ("batch_size", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory")
}
_LIGHTNING = {
    **_OWN_LOADER,
    "precision=bf16": 'Trainer(precision="bf16-mixed")',
    "precision=fp16": 'Trainer(precision="16-mixed")',
    "micro_batches": "Trainer(accumulate_grad_batches={value}), and a batch size {value} times "
    "smaller",
    "cudnn_benchmark": "Trainer(benchmark={value})",
    "compile": 'torch.compile(…, mode="{value}", dynamic=False), where … is your model, for '
    "trainer.fit(...)",
}
_FABRIC = {
    **_OWN_LOADER,
    "precision=bf16": 'Fabric(precision="bf16-mixed")',
    "precision=fp16": 'Fabric(precision="16-mixed")',
}
_TRANSFORMERS = {
    "batch_size": "TrainingArguments(per_device_train_batch_size={value}), or that divided by the "
    "number of GPUs",
    "num_workers": "TrainingArguments(dataloader_num_workers={value})",
    "prefetch_factor": "TrainingArguments(dataloader_prefetch_factor={value})",
    "persistent_workers": "TrainingArguments(dataloader_persistent_workers={value})",
    "pin_memory": "TrainingArguments(dataloader_pin_memory={value})",
    "non_blocking": 'TrainingArguments(accelerator_config={{"non_blocking": {value}}})',
    "precision=bf16": "TrainingArguments(bf16=True)",
    "precision=bf16 cpu": "TrainingArguments(bf16=True, use_cpu=True)",
    "precision=fp16": "TrainingArguments(fp16=True)",
    "precision=tf32": "TrainingArguments(tf32=True)",
    "channels_last": "….to(memory_format=torch.channels_last), where … is your model, before "
    "the Trainer is built",
    "checkpointing": "TrainingArguments(gradient_checkpointing=True), which is of all blocks",
    "compile=default": "TrainingArguments(torch_compile=True)",
    "compile=reduce-overhead": "TrainingArguments(torch_compile=True, "
    'torch_compile_mode="{value}")',
    "compile=max-autotune": 'TrainingArguments(torch_compile=True, torch_compile_mode="{value}")',
    "micro_batches": "TrainingArguments(gradient_accumulation_steps={value}), and a "
    "per_device_train_batch_size {value} times smaller",
    "optimizer=fused": 'TrainingArguments(optim="adamw_torch_fused"), where the optimizer is AdamW',
}
_ACCELERATE = {
    **_OWN_LOADER,
    "non_blocking": "Accelerator(dataloader_config=DataLoaderConfiguration(non_blocking={value}))",
    "precision=bf16": 'Accelerator(mixed_precision="bf16")',
    "precision=fp16": 'Accelerator(mixed_precision="fp16")',
    "micro_batches": "Accelerator(gradient_accumulation_steps={value}), a batch size {value} times "
    "smaller, and `with accelerator.accumulate(model):` round the step",
}
_IGNITE = {
    **_OWN_LOADER,
    "non_blocking": "create_supervised_trainer(..., non_blocking={value})",
    "precision=fp16": 'create_supervised_trainer(..., amp_mode="amp", scaler=True)',
    "micro_batches": "create_supervised_trainer(..., gradient_accumulation_steps={value}), and a "
    "batch size {value} times smaller",
}
_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    LIGHTNING: _LIGHTNING,
    FABRIC: _FABRIC,
    TRANSFORMERS: _TRANSFORMERS,
    ACCELERATE: _ACCELERATE,
    IGNITE: _IGNITE,
}


def in_its_framework(
    edits: Sequence[EditOutcome], config: Config, seen: Seen
) -> tuple[EditOutcome, ...]:
    """`edits` with what to tell the framework or library in place of a line to change in its own
    files, whose paths are cut short.

    Those of programs that train in a loop of their own stay as they are.
    """
    return tuple(
        _in_words(edit, config[edit.knob], seen) if edit.status == "refused" else edit
        for edit in edits
    )


def _in_words(edit: EditOutcome, value: Value, seen: Seen) -> EditOutcome:
    arguments = _ARGUMENTS.get(framework_of(seen.places))
    if arguments is None:
        hand_step = _at_the_call(edit, seen.places)
    else:
        hand_step = _hand_step(arguments, edit.knob, value, seen.device) or edit.hand_step
    return replace(edit, reason=_shortened(edit.reason), hand_step=_outside(hand_step))


def _at_the_call(edit: EditOutcome, places: Places) -> str:
    """The hand step at the program's own line that has a library build what is to be changed."""
    match edit.edit:
        case LoaderArgument():
            caller, code = places.loader_caller, f"{edit.edit.name}={edit.edit.code}"
        case OptimizerArgument():
            caller, code = places.optimizer_caller, f"{edit.edit.name}={edit.edit.code}"
        case ModelStatement():
            caller, code = places.optimizer_caller, edit.hand_step.partition(": ")[2]
        case _:
            return edit.hand_step
    asked = "" if isinstance(edit.edit, ModelStatement) else ", if what is called there takes that"
    return f"{caller.path}:{caller.line}: {code}{asked}" if caller else edit.hand_step


def _hand_step(arguments: Mapping[str, str], knob: str, value: Value, device: str) -> str:
    names = (f"{knob}={value} {device}", f"{knob}={value}", knob)
    template = next((arguments[name] for name in names if name in arguments), "")
    return template.format(value=value)


def _outside(hand_step: str) -> str:
    """The hand step, but for one in a library's file: nobody is to change that."""
    return "" if is_installed(hand_step.partition(":")[0]) else hand_step


def _shortened(reason: str) -> str:
    return " ".join(short_path(word) for word in reason.split(" "))
