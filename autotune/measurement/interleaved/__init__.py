"""Contestants that take turns, so that a difference is theirs and not the hour's."""
