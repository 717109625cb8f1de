"""Whether the processor computes with denormal numbers, or takes them for zero."""

import sys


def flushes_denormals() -> bool:
    """Whether this thread takes them for zero (`torch.set_flush_denormal`)."""
    return sys.float_info.min / 2 == 0.0
