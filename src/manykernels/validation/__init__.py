"""What comes in is checked here, once: arrays, Gram matrices, and parameters that are no numbers."""
