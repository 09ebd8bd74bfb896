"""Kernels of pairs, for example drugs and targets, as products of kernels of their members."""
