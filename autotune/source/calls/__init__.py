"""A call in the source: which it is, and how one argument is set, however it is given."""
