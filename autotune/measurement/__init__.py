"""Runs in processes of their own: forked, sandboxed, timed in turns, and judged for doubts."""
