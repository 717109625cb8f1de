"""How long torch.compile has been at work in this process."""

import sys


def compiling_seconds() -> float:
    """Seconds so far; 0 where nothing was compiled. torch is asked only where it has loaded what
    compiles.
    """
    module = sys.modules.get("torch._dynamo.utils")
    spent = getattr(module, "calculate_time_spent", None)
    return float(spent().get("total_wall_time", 0.0)) if spent else 0.0
