"""Products of kernels under heredity, searched along their graph (HKL)."""
