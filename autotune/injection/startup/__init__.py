"""The folder that a tuned program's processes have on their import path."""
