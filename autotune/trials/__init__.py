"""The search: which settings are worth trying, which to try next, and what each of them gave."""
