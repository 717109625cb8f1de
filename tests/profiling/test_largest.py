"""Memory goes by the largest batch that a program's data gives, on allocators that are made up."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autotune.diagnosis import Bottleneck, diagnose
from autotune.diagnosis.device import small_parts_of_device
from autotune.diagnosis.largest import said_of_largest
from autotune.knobs.checkpointing import Checkpointing
from autotune.knobs.evidence import plenty_of_memory
from autotune.knobs.knob import Choices
from autotune.knobs.micro_batches import MicroBatches
from autotune.profiling.gpu import GpuProfile
from autotune.profiling.memory_model import line_of
from autotune.profiling.profile import LargestBatch, Memory, Profile
from autotune.workload.found import SavedBlock
from tests import builders
from tests.knobs.profiles import on_a_gpu

GIB = 1 << 30
FIXED = 2 * GIB
USUAL, LONGEST, SAMPLES = 32 * 128, 32 * 512, 32


def linear(elements: int) -> int:
    """Half a MiB for each token."""
    return FIXED + elements * GIB // 2048


def with_attention(elements: int) -> int:
    """And the square of a text's length besides."""
    return linear(elements) + SAMPLES * (elements // SAMPLES) ** 2 * 256


def largest(allocator: Callable[[int], int], *, capacity: int = 80 * GIB, **changes: Any) -> Any:
    """As a run finds it that goes on up to the first batch for which there is no memory."""
    tried, fits = [], True
    for elements in (USUAL, LONGEST):
        if allocator(elements) > capacity:
            fits = False
            break
        tried.append((elements, allocator(elements)))
    given: dict[str, Any] = {
        "looked_at": 400,
        "of": 400,
        "shapes": ("int64[32, 512]",),
        "samples": SAMPLES,
        "elements": LONGEST,
        "usual_elements": USUAL,
        "tried": tuple(tried),
        "fits": fits,
    }
    return LargestBatch(**given | changes)


def memory(found: LargestBatch | None, capacity: int = 80 * GIB, **changes: Any) -> Memory:
    """Of a program that was timed in batches of usual length."""
    given: dict[str, Any] = {
        "peak_bytes": linear(USUAL),
        "parameter_bytes": FIXED // 4,
        "gradient_bytes": FIXED // 4,
        "optimizer_bytes": FIXED // 2,
        "activation_bytes": linear(USUAL) - FIXED,
        "capacity_bytes": capacity,
        "largest": found,
    }
    return Memory(**given | changes)


@pytest.mark.parametrize("allocator", [linear, with_attention])
def test_what_the_largest_batch_took_is_what_the_program_takes(
    allocator: Callable[[int], int],
) -> None:
    assert memory(largest(allocator)).most_bytes == allocator(LONGEST)
    assert memory(None).most_bytes == linear(USUAL)


def test_where_it_did_not_fit_it_is_predicted_from_what_did() -> None:
    assert memory(largest(linear, capacity=8 * GIB), 8 * GIB).most_bytes == linear(LONGEST)
    # Of what grows faster than its elements the prediction is the least, and more than there is.
    found = memory(largest(with_attention, capacity=10 * GIB), 10 * GIB).most_bytes
    assert found is not None and 10 * GIB <= linear(LONGEST) <= found <= with_attention(LONGEST)


def test_what_did_not_fit_takes_more_than_there_is_whatever_a_line_says() -> None:
    found = largest(linear, tried=(), fits=False)
    assert memory(found, 6 * GIB).most_bytes == 6 * GIB


def test_a_text_that_is_longest_alone_counts_as_well() -> None:
    # Few long texts: fewer elements than many short ones, and more memory.
    found = largest(linear, tried=((USUAL, 4 * GIB), (2 * USUAL, 30 * GIB), (LONGEST, 20 * GIB)))
    assert memory(found).most_bytes == 30 * GIB


def test_one_that_takes_less_than_what_was_timed_changes_nothing() -> None:
    assert memory(largest(linear, tried=((LONGEST, GIB),))).most_bytes == linear(USUAL)


def test_the_line_of_a_sample_is_that_of_the_largest() -> None:
    line = line_of(memory(largest(linear)), SAMPLES)
    assert line is not None
    assert line.peak_bytes(SAMPLES) == pytest.approx(linear(LONGEST))
    assert line.peak_bytes(SAMPLES // 2) == pytest.approx(linear(LONGEST // 2))


def profile(found: LargestBatch | None, capacity: int, **seen: Any) -> Profile:
    loader = builders.seen().loader
    assert loader is not None
    given = {"shapes": 40, "loader": replace(loader, batch_size=SAMPLES), **seen}
    base = on_a_gpu()
    models = tuple(replace(model, batch_norms=0) for model in base.seen.models)
    watched = replace(base.seen, **{"models": models, "optimizers": 1, **given})
    return replace(base, seen=watched, memory=memory(found, capacity))


def test_memory_is_scarce_by_the_largest_batch() -> None:
    found = largest(linear)
    roomy, scarce = linear(LONGEST) * 2, linear(LONGEST) + GIB // 8
    assert plenty_of_memory(profile(found, roomy))
    assert not plenty_of_memory(profile(found, scarce))
    assert plenty_of_memory(profile(None, scarce))
    first = diagnose(profile(found, scarce))
    told = next(each for each in first if each.bottleneck is Bottleneck.MEMORY)
    assert told.severity == "critical"
    assert "on the largest batch of its data" in told.headline
    assert "The largest of the 400 batches of an epoch" in told.evidence
    assert not any(each.bottleneck is Bottleneck.MEMORY for each in diagnose(profile(None, scarce)))


def test_micro_batches_are_as_small_as_the_largest_batch_needs() -> None:
    capacity = linear(LONGEST) * 3 // 4
    told = MicroBatches().domain(profile(largest(linear), capacity))
    assert isinstance(told, Choices) and told.values[:2] == (1, 2)
    assert linear(LONGEST // 2) <= 0.92 * capacity
    tighter = MicroBatches().domain(profile(largest(linear), linear(LONGEST) // 2))
    assert isinstance(tighter, Choices) and tighter.values[1] == 4


def test_checkpointing_frees_what_the_largest_batch_lacks() -> None:
    blocks = tuple(f"blocks.{number}" for number in range(8))
    each = (linear(USUAL) - FIXED) // 10
    saved = tuple(SavedBlock(name=name, freed_bytes=each, seconds=0.001) for name in blocks)

    def tried(found: LargestBatch | None, capacity: int) -> tuple[Any, ...]:
        base = profile(found, capacity)
        models = tuple(replace(model, blocks=blocks) for model in base.seen.models)
        of = replace(
            base,
            seen=replace(base.seen, models=models),
            memory=replace(base.memory, blocks=saved),
        )
        domain = Checkpointing().domain(of)
        assert isinstance(domain, Choices)
        return domain.values

    # Less than a tenth of what the largest keeps is missing: one block of ten.
    capacity = int((linear(LONGEST) - (linear(LONGEST) - FIXED) / 11) / 0.92)
    assert set(map(abs, tried(largest(linear), capacity))) == {0, 1, 4, 8}


@pytest.mark.parametrize(
    ("changes", "said"), [({}, True), ({"looked_at": 300}, False), ({"fits": None}, False)]
)
def test_larger_batches_are_said_to_fit_by_the_largest_of_all(
    changes: dict[str, Any], said: bool
) -> None:
    found = profile(largest(linear, **changes), 200 * GIB, micro_batches=4, samples_per_step=128.0)
    idle = replace(found, gpu=GpuProfile(busy_share=0.5))
    assert bool(small_parts_of_device(idle)) is said


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            largest(linear),
            (
                "The largest of the 400 batches of an epoch has int64[32, 512], 4 times the "
                "numbers of the first; a step on it takes 10 GiB at its peak, beside 4 GiB of"
                " those that were timed."
            ),
        ),
        (
            largest(linear, looked_at=120, tried=((LONGEST, GIB),)),
            (
                "The largest of 120 batches that were looked at, of the 400 of an epoch, has "
                "int64[32, 512], 4 times the numbers of the first; a step on it takes no more"
                " than the 4 GiB of those that were timed."
            ),
        ),
        (
            largest(linear, capacity=8 * GIB, of=None),
            (
                "The largest of 400 batches that were looked at, of nobody knows how many, "
                "has int64[32, 512], 4 times the numbers of the first; a step on it did not "
                "fit into memory: it needs about 10 GiB."
            ),
        ),
        (
            largest(linear, fits=None, tried=((USUAL, linear(USUAL)),), reason="it hung"),
            (
                "The largest of the 400 batches of an epoch has int64[32, 512], 4 times the "
                "numbers of the first; a step on it was not tried (it hung) and is predicted "
                "to take 10 GiB at its peak, beside 4 GiB of those that were timed."
            ),
        ),
        (
            LargestBatch(reason="a thread of the program's own draws its batches"),
            (
                "Batches come in several shapes; the largest is not known: a thread of the "
                "program's own draws its batches."
            ),
        ),
        (None, ""),
    ],
)
def test_what_is_said_of_it(found: LargestBatch | None, sentence: str) -> None:
    capacity = 8 * GIB if found and found.fits is False else 80 * GIB
    assert said_of_largest(memory(found, capacity)) == sentence
