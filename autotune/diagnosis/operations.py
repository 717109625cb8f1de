"""Computing that is small operations, which take longer to start than to compute."""

import math
import os

from autotune.profiling.profile import Profile

# Steps shorter than this that still compute most of the time are small operations: starting one
# costs 5 to 20 us from Python, and a step of the smallest model starts a hundred. Unless they get
# through this many operations a second on each core, which only large ones do (a matrix product
# of 700 x 700: 1e11; a classifier of 2,400 weights with batches of 32: 3e8), or those that were
# counted take longer in the mean (recurrent layers and convolutions use a weight many times).
TINY_STEP_SECONDS = 0.005
WORKING_RATE = 5e9
MOSTLY = 0.5
# And so are they, however long the step, where those that are counted, views and what torch starts
# by itself among them, take no longer than this in the mean: chosen between attention scores filled
# in one by one and convolutions with weight norm, which compute most of the time.
SMALL_OPERATION_SECONDS = 5e-6
# Those that take no longer than what starting the dearest of them does are told of.
SHORT_OPERATION_SECONDS = 20e-6
COMPUTING = ("forward", "backward", "optimizer")


def of_small_operations(profile: Profile) -> bool:
    """Whether computing is small operations, by how short a step is, or by what was counted."""
    return _is_tiny(profile) or _has_small(profile)


def _is_tiny(profile: Profile) -> bool:
    """Whether a step is so short, and computes so little, that it must be small operations."""
    # Every weight multiplies and adds at least once a sample, forward and twice backward.
    least_rate = 6 * parameters(profile) * profile.seen.samples_per_step / profile.step_seconds
    works = least_rate > WORKING_RATE * profile.machine.cores
    long = profile.operations is not None and _seconds_of_one(profile) >= SHORT_OPERATION_SECONDS
    return profile.step_seconds < TINY_STEP_SECONDS and not works and not long


def _has_small(profile: Profile) -> bool:
    """Whether what was counted takes little more than its start, in the mean."""
    return _seconds_of_one(profile) < SMALL_OPERATION_SECONDS


def _seconds_of_one(profile: Profile) -> float:
    """What one operation takes in the mean; infinity where they were not counted."""
    if profile.operations is None:
        return math.inf
    computing = sum(profile.phases.get(phase, 0.0) for phase in COMPUTING)
    return computing * profile.step_seconds / max(1.0, profile.operations.per_step)


def short_ones(profile: Profile) -> str:
    """How many operations there are and how short, in the mean, where starting them may take much
    of that; else "".
    """
    seconds = _seconds_of_one(profile)
    short = seconds < SHORT_OPERATION_SECONDS
    return f", in {counted(profile)}operations of some {1e6 * seconds:.0f} µs" if short else ""


def counted(profile: Profile) -> str:
    """How many there are, for a sentence; "" where they were not counted."""
    return f"{profile.operations.per_step:,.0f} " if profile.operations else ""


def started(profile: Profile) -> str:
    """Which function starts most of them; "" where none stands out."""
    found = profile.operations
    if found is None or found.place is None or found.share < MOSTLY:
        return ""
    file = os.path.basename(found.place.path)
    return f", most of them in {found.function} ({file}:{found.place.line})"


def parameters(profile: Profile) -> int:
    """How many weights its models have, or its optimizer where it has no models."""
    models, optimizer = profile.seen.models, profile.seen.optimizer
    if not models and optimizer is not None:
        return optimizer.parameters
    return sum(model.parameters for model in models)
