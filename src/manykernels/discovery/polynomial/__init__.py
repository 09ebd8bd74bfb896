"""Products of kernels found by gradient-proportional sampling among all (SGD-1s)."""
