"""Kernels that come as matrices."""
