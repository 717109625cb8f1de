"""The device that a program trains on, which need not be the one that was found beforehand."""

from autotune.errors import MeasurementError
from autotune.flow.context import Context
from autotune.machine import CPU, Machine, detect, with_gpu
from autotune.measurement.readings.telemetry import trains_on_gpu
from autotune.nvml import describe_gpu
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
