"""What a run has of its machine and process: memory, processors, the C library, the GPU."""
