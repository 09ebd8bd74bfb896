"""The default: a primal-dual Newton method on a working set of kernels."""
