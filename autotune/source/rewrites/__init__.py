"""The edits themselves, one kind a file."""
