"""What a training framework calls the settings, for programs whose loop is the framework's: an edit
that their source has no place for is an argument there.

Checked against transformers 5.23, lightning 2.6 and accelerate 1.15.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.knobs.knob import Config, Value
from autotune.source.edits import EditOutcome, Place
from autotune.workload.seen import Seen

_LIGHTNING = {
    "precision=bf16": 'Trainer(precision="bf16-mixed")',
    "precision=fp16": 'Trainer(precision="16-mixed")',
    "micro_batches": "Trainer(accumulate_grad_batches={value}), and a batch size {value} times "
    "smaller",
    "cudnn_benchmark": "Trainer(benchmark={value})",
}
_TRANSFORMERS = {
    "num_workers": "TrainingArguments(dataloader_num_workers={value})",
    "prefetch_factor": "TrainingArguments(dataloader_prefetch_factor={value})",
    "persistent_workers": "TrainingArguments(dataloader_persistent_workers={value})",
    "pin_memory": "TrainingArguments(dataloader_pin_memory={value})",
    "non_blocking": 'TrainingArguments(accelerator_config={{"non_blocking": {value}}})',
    "precision=bf16": "TrainingArguments(bf16=True)",
    "precision=fp16": "TrainingArguments(fp16=True)",
    "precision=tf32": "TrainingArguments(tf32=True)",
    "channels_last": "model.to(memory_format=torch.channels_last) before the Trainer is built",
    "checkpointing": "TrainingArguments(gradient_checkpointing={value})",
    "compile=default": "TrainingArguments(torch_compile=True)",
    "compile=reduce-overhead": "TrainingArguments(torch_compile=True, "
    'torch_compile_mode="{value}")',
    "micro_batches": "TrainingArguments(gradient_accumulation_steps={value}), and a "
    "per_device_train_batch_size {value} times smaller",
    "optimizer=fused": 'TrainingArguments(optim="adamw_torch_fused"), of AdamW',
}
_ACCELERATE = {
    "num_workers": "num_workers={value} where your DataLoader is built",
    "prefetch_factor": "prefetch_factor={value} where your DataLoader is built",
    "persistent_workers": "persistent_workers={value} where your DataLoader is built",
    "pin_memory": "pin_memory={value} where your DataLoader is built",
    "non_blocking": "Accelerator(dataloader_config=DataLoaderConfiguration(non_blocking={value}))",
    "precision=bf16": 'Accelerator(mixed_precision="bf16")',
    "precision=fp16": 'Accelerator(mixed_precision="fp16")',
    "micro_batches": "Accelerator(gradient_accumulation_steps={value}), a batch size {value} times "
    "smaller, and `with accelerator.accumulate(model):` round the step",
}
# By the folder that its files lie in; transformers trains through accelerate, and lightning has two
# names.
_FRAMEWORKS: Mapping[str, Mapping[str, str]] = {
    "transformers": _TRANSFORMERS,
    "lightning": _LIGHTNING,
    "pytorch_lightning": _LIGHTNING,
    "accelerate": _ACCELERATE,
}
_INSTALLED = ("site-packages", "dist-packages")


def in_its_framework(
    edits: Sequence[EditOutcome], config: Config, seen: Seen
) -> tuple[EditOutcome, ...]:
    """`edits` with what to tell the framework in place of a line to change in its own files.

    Those of programs that train in a loop of their own stay as they are.
    """
    arguments = _arguments(seen)
    if arguments is None:
        return tuple(edits)
    return tuple(
        replace(edit, hand_step=_hand_step(arguments, edit.knob, config[edit.knob]))
        if edit.status == "refused"
        else edit
        for edit in edits
    )


def _hand_step(arguments: Mapping[str, str], knob: str, value: Value) -> str:
    template = arguments.get(f"{knob}={value}") or arguments.get(knob, "")
    return template.format(value=value)


def _arguments(seen: Seen) -> Mapping[str, str] | None:
    """The arguments of the framework whose files the run was seen to train in."""
    places = seen.places
    loop = (places.forward, places.backward, places.step, places.zero_grad)
    paths = [place.path for place in loop if isinstance(place, Place)]
    for name, arguments in _FRAMEWORKS.items():
        if any(f"/{packages}/{name}/" in path for packages in _INSTALLED for path in paths):
            return arguments
    return None
