"""Kernels of pairs, such as drugs and targets, as products of kernels of their members."""
