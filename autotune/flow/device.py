"""The device that a program trains on, which need not be the one that was found beforehand, and
need not say what energy it takes.
"""

from autotune.errors import MeasurementError, UsageError
from autotune.flow.context import Context, Options
from autotune.machine import CPU, Machine, detect, with_gpu
from autotune.measurement.readings.telemetry import reports_energy, trains_on_gpu
from autotune.nvml import describe_gpu
from autotune.trials.front import ENERGY, MEMORY
from autotune.workload.seen import Seen


def that_trains(context: Context, seen: Seen) -> Machine:
    """The machine, by the device that was `seen` to train.

    Raises:
        MeasurementError: it is a GPU that was hidden from the program: its seams have timed the
            host.
    """
    found = context.machine
    if not trains_on_gpu(seen):
        return found if found.device == CPU else detect(CPU)
    if found.device == CPU and _was_hidden(context, seen):
        raise MeasurementError(
            "The program trains on a GPU that is hidden here: it sets CUDA_VISIBLE_DEVICES itself.",
            "Take that line out of it, or start autotune without --device cpu and without the "
            "variable.",
        )
    return with_gpu(found, seen.device_uuid, seen.gpu)


def _was_hidden(context: Context, seen: Seen) -> bool:
    """Whether a GPU was, that the user or a variable had not shown; one that only NVML does not
    show was there all the time.
    """
    return context.options.device == CPU or describe_gpu(seen.device_uuid) is not None


def refuse_unknown(options: Options, machine: Machine, seen: Seen | None = None) -> None:
    """Refuse `--energy` where `machine`, on which the program was `seen` to train, reports none;
    before it is seen, that is known of a CPU.

    Raises:
        UsageError: it was asked for, and the device does not report it.
    """
    if not options.energy:
        return
    if not (reports_energy(seen) if seen else machine.device != CPU):
        raise UsageError(
            f"--energy: this device ({machine.device_name}) reports no energy.",
            "NVIDIA's drivers report that of whole GPUs: search without --energy.",
        )


def against_speed(options: Options) -> tuple[str, ...]:
    """What trials are set against speed by: memory where nothing else was asked for."""
    limited = options.memory_limit_bytes is not None or not options.energy
    return (ENERGY,) * options.energy + (MEMORY,) * limited
