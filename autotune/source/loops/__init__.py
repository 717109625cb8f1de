"""A training loop as its text shows it; what is looked for comes as file and line, "" for none."""
