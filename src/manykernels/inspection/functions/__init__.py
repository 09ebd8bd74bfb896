"""The shape of the learned functions."""
