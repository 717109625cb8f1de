"""Training loaders and their batches, and the copies of those to the device."""
