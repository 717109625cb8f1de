"""What is read beside a timed run: device, memory, storage, page faults, bursts."""
