"""Aids to find mistakes that are left on."""

from pathlib import Path

from autotune.diagnosis.finding import (
    WAIT_CRITICAL,
    WAIT_WARNING,
    Bottleneck,
    Finding,
    severity,
    times,
)
from autotune.profiling.profile import Profile
from autotune.workload.window import NO_ANOMALY


def checking_share(profile: Profile) -> float:
    """Of a step, what is over without anomaly detection; 0 where that was not timed."""
    return max(0.0, 1 - 1 / profile.probes.get(NO_ANOMALY, 1.0))


def anomaly_detection(profile: Profile) -> Finding | None:
    """Torch's anomaly detection, where the loop without it was timed to be faster."""
    share, place = checking_share(profile), profile.seen.places.anomaly
    grade = severity(share, WAIT_WARNING, WAIT_CRITICAL)
    if not grade or place is None:
        return None
    gain = profile.probes[NO_ANOMALY]
    where = f"{Path(place.path).name}:{place.line}"
    return Finding(
        bottleneck=Bottleneck.CHECKS,
        severity=grade,
        evidence="Without it the training is the same.",
        max_gain=gain,
        headline=f"torch's anomaly detection is on ({where}): without it, it ran {times(gain)} "
        "as fast.",
    )
