"""A training's models, their blocks, outputs and gradients, and its optimizers."""
