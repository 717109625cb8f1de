"""How many threads one tensor operation of the training process may use on the CPU.

What it does
    Sets `torch.set_num_threads`, before the program starts and again before its first training
    step.

When it helps
    On a CPU, when the model is too small to keep every core busy, or when loader workers need the
    cores that training's threads hold: one thread for training and one worker each for the others
    often wins only together.

What it costs
    Nothing where the threads had too little to do; large matrix products slow down with fewer
    threads.

What it changes
    The order in which long sums are added up, so the last digits of the results.
"""

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import on_cuda
from autotune.knobs.knob import Choices, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ProcessStatement
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

# Processors that a training process on a GPU keeps busy with a single thread: its own Python and
# CUDA's spinning.
_ONE_THREAD = 1.5


class Threads(Knob):
    name = "threads"
    relieves = frozenset({Bottleneck.COMPUTE, Bottleneck.OVERHEAD, Bottleneck.DATA})
    semantics = Semantics.EQUIVALENT
    admits = range(1, 1025)

    def domain(self, profile: Profile) -> Choices | Skip:
        own, cores = self.read(profile.seen), profile.machine.cores
        if on_cuda(profile) and profile.processors_used < _ONE_THREAD:
            return Skip(
                reason=f"training keeps {profile.processors_used:.1f} processors busy beside the "
                "GPU: more or fewer threads would change little"
            )
        values = {int(own), 1, max(1, cores // 2), cores}
        if len(values) == 1:
            return Skip(reason="there is one core, and one thread on it")
        return Choices(own=own, values=tuple(sorted(values)))

    def read(self, seen: Seen) -> Value:
        return seen.threads

    def apply(self, setup: Setup, value: Value) -> None:
        import torch

        setup.switch(lambda: torch.set_num_threads(int(value)))

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        return (ProcessStatement(code=f"torch.set_num_threads({value})", threads=True),)
