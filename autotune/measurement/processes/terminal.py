"""A terminal for runs of a program that was started at one: some fail where they find none.

Nobody types there: reading from it ends at once, as it does without a terminal.
"""

import fcntl
import os
import struct
import sys
import termios

_END_OF_INPUT = b"\x04"  # Ctrl-D, as a terminal takes it
_ENDS = 1024  # so many readings end at once


def terminal_size() -> os.terminal_size | None:
    """The size of the terminal that this process reads from, None where it reads from none."""
    try:
        return os.get_terminal_size(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):
        return None


def open_input(size: os.terminal_size | None) -> int:
    """A file descriptor to read from in vain: of a terminal of this `size`, or of nothing.

    The terminal's other end stays open in this process, without which it would have no size.
    """
    if size is None:
        return os.open(os.devnull, os.O_RDONLY)
    other_end, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.lines, size.columns, 0, 0))
    os.write(other_end, _END_OF_INPUT * _ENDS)
    return terminal
