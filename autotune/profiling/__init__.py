"""Where a program's time and memory go, computed from the windows of its runs."""
