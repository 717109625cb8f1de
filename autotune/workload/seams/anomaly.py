"""torch's anomaly detection, which looks for NaN in each gradient and keeps the line of each
operation: where it is turned on, and the loop without it.
"""

from typing import Any

import torch

from autotune.workload.live import Live
from autotune.workload.places import calling_place


def install(live: Live) -> None:
    """Watch what `detect_anomaly` and `set_detect_anomaly` call."""
    original: Any = torch.set_anomaly_enabled

    def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
        if mode and "anomaly" not in live.places and (place := calling_place()):
            live.places["anomaly"] = place
        original(mode and live.own_anomaly is None, check_nan)

    live.patch(torch, "set_anomaly_enabled", set_anomaly_enabled)


def detect(live: Live, *, as_own: bool) -> None:
    """Nothing in the steps to come, whatever the program asks for meanwhile; or what it had when
    it was asked so, in the same place of a step.
    """
    if as_own and live.own_anomaly is not None:
        own, live.own_anomaly = live.own_anomaly, None
        torch.set_anomaly_enabled(*own)
    elif not as_own and live.own_anomaly is None:
        own = (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        live.own_anomaly = own
        torch.set_anomaly_enabled(False)
