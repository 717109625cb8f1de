"""Looks at steps that are not timed: lines of code, FLOPs, what is kept for backward."""
