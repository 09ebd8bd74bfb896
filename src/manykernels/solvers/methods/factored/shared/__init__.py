"""Several classes or targets with one set of kernel weights, on kernels held as factors."""
