"""The user's program as text: what knobs ask of it, applied where a run was seen to do it."""
