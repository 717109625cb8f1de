"""Energy, where it is to be set against speed: refused on a device that reports none."""

from autotune.errors import UsageError
from autotune.flow.context import Options
from autotune.machine import CPU, Machine
from autotune.measurement.readings.telemetry import reports_energy
from autotune.trials.front import ENERGY, MEMORY
from autotune.workload.seen import Seen


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
