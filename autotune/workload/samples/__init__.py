"""What a loader delivers, what samples are made from, and what making them leaves behind."""
