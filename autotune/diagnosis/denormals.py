"""Numbers too small for the whole precision of their format."""

from autotune.diagnosis.finding import (
    NO_GAIN,
    WAIT_WARNING,
    Bottleneck,
    Finding,
    severity,
    times,
)
from autotune.profiling.profile import Profile


def denormal_numbers(profile: Profile) -> Finding | None:
    """Averages of the optimizer's that come to be such numbers, where a step was timed to take
    longer with them.
    """
    found = profile.denormals
    cost = found.times_as_long if found else None
    if found is None or cost is None or cost < NO_GAIN:
        return None
    share = f"{100 * found.coming:.2g} % of the optimizer's averages"
    said = f"{share} are denormal numbers by now"
    if found.after_steps:
        said = f"If they go on to dwindle, {share} are denormal numbers in some "
        said += f"{found.after_steps:,} steps"
    return Finding(
        bottleneck=Bottleneck.DENORMALS,
        severity=severity(1 - 1 / cost, WAIT_WARNING, 1.0) or "info",
        evidence="torch.set_flush_denormal(True) at the program's beginning has them taken for "
        "zero.",
        max_gain=cost,
        headline=f"{said}, with which a step takes {times(cost)} as long.",
    )
