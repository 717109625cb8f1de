"""A training loop as its text shows it: its statements, its loss, what goes by its counts."""
