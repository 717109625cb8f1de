"""A program as it runs: started unchanged, seen through torch's seams, set up by a Setup, timed."""
