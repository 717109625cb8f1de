"""What forbids an edit: uses of batches, models and datasets that it would break."""
