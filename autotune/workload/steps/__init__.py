"""The beat of a run: which steps count, where their time goes, and what a mode feeds them."""
