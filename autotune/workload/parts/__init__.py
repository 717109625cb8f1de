"""A training's models, their blocks and outputs, and its optimizers."""
