"""Products of kernels found by gradient-proportional sampling among all of them (SGD-1s)."""
