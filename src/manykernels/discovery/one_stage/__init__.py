"""Kernels chosen while the predictor is learned: greedily (CKL, IKL) or by sampling (SGD-1s)."""
