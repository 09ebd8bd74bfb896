"""Validation of inputs: arrays, Gram matrices, and nonnumeric parameters."""
