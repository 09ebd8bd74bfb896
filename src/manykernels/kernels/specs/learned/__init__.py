"""Kernels of one or more columns that learn from training rows: bins, landmarks."""
