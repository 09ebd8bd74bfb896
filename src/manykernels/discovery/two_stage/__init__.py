"""Kernels chosen by their likeness to a target kernel (GCD-2s), before the predictor is learned."""
