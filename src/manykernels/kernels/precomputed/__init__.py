"""Precomputed kernels."""
