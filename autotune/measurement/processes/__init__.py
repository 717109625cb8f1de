"""Runs as processes: forked from a warm one, talked to, ended, and what they failed by."""
